"""The bracket task's fast step computes what the plain module, autograd and AdamW compute."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import kept_runs
from helpers.dyck import DyckTransformer
from helpers.dyck.model import OUTPUTS
from helpers.dyck.training import BLOCK, BOUNDARY, ENDS, Batch, Dyck, DyckLearner, from_spec
from helpers.fast import ragged_attention, ragged_kernels, ragged_passes
from helpers.fast.ragged import Ragged, Tokens
from helpers.models import ModelConfig
from helpers.runs import Run, train_all
from helpers.tasks import dyck
from helpers.tasks.markov import cyclic
from helpers.training import Task, TrainConfig, train
from tests.toy import identical, same

TIGHT = {"atol": 1e-5, "rtol": 1e-5}
MODEL = ModelConfig(40, 64, n_layers=2, d_model=16, n_heads=2, d_mlp=24)
RECIPE = TrainConfig(12, 8, lr=3e-3, weight_decay=1e-4, betas=(0.9, 0.95), warmup=3, eval_every=6)
TASK = Dyck(n_eval=20)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HELPERS_CACHE", str(tmp_path))
    return tmp_path


def shaken(config=MODEL, seed=100, frame="shared", grow=1.0) -> DyckTransformer:
    """A model with every parameter away from its start; ``grow``: larger queries and keys."""
    model = DyckTransformer(config, seed, frame)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=draw)
            if "attn.q" in name or "attn.k" in name:
                parameter *= grow
    return model


def fast(model: DyckTransformer) -> Ragged:
    return Ragged(model.state_dict(), model.config.n_heads, model.features)


def rows(n: int, seed=100) -> np.ndarray:
    return dyck.train_rows(np.random.default_rng(seed), n)


def batch(n: int, seed=100) -> Batch:
    found = rows(n, seed)
    return Batch.of(found, dyck.label(found), slice(0, n))


def plain(model: DyckTransformer, n: int, seed=100) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits at the real positions of rows of 64 with padding, and the loss; in float64, so that
    what is compared with has no rounding of its own."""
    found = rows(n, seed)
    labels = dyck.label(found)
    mask = torch.from_numpy(labels.mask)
    logits = model(torch.from_numpy(found))[mask]
    answers = [torch.from_numpy(getattr(labels, name))[mask] for name in OUTPUTS]
    parts = zip(OUTPUTS.values(), answers, strict=True)
    return logits, sum(F.cross_entropy(logits[:, part], answer) for part, answer in parts)


def autograd(model: DyckTransformer, n: int, seed=100) -> dict[str, torch.Tensor]:
    model = copy.deepcopy(model).double()
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(plain(model, n, seed)[1], parameters)
    return {name: value.float() for name, value in zip(names, gradients, strict=True)}


def backward(net: Ragged, one: Batch) -> float:
    logits = net.forward(one.tokens)
    loss = ragged_kernels.cross_entropies(logits, one.answers, ENDS)
    net.backward(logits)
    return loss


# ---- the passes


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 3),
    st.sampled_from((1, 2, 8)),
    st.integers(1, 20),
    st.integers(100, 1000),
    st.sampled_from(("shared", "own")),
)
def test_logits_loss_and_gradients_are_the_plain_module_s(layers, heads, n, seed, frame):
    model = shaken(replace(MODEL, n_layers=layers, n_heads=heads), seed, frame)
    net, one = fast(model), batch(n, seed)
    logits, wanted = plain(copy.deepcopy(model).double(), n, seed)
    found = torch.from_numpy(net.forward(one.tokens).copy())
    torch.testing.assert_close(found, logits.detach().float(), **TIGHT)
    assert backward(net, one) == pytest.approx(float(wanted.detach()), rel=1e-5)
    gradients = autograd(model, n, seed)
    assert gradients.keys() == net.grads.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(net.grads[name], gradient, msg=name, **TIGHT)


def test_the_full_size_too():
    model = shaken(ModelConfig(40, 64, n_layers=2))
    net = fast(model)
    backward(net, batch(16))
    for name, gradient in autograd(model, 16).items():
        torch.testing.assert_close(net.grads[name], gradient, msg=name, **TIGHT)


def test_attention_that_is_sharp_is_right_as_well():
    """Scores of some hundreds: without the largest taken off, their exponentials overflow."""
    model = shaken(grow=12.0)
    found = torch.from_numpy(fast(model).forward(batch(12).tokens).copy())
    wanted = plain(copy.deepcopy(model).double(), 12)[0].detach().float()
    torch.testing.assert_close(found, wanted, atol=1e-3, rtol=1e-3)


def test_a_second_pass_forgets_the_first():
    once, twice = fast(shaken()), fast(shaken())
    backward(twice, batch(9, seed=101))
    backward(twice, batch(12))
    backward(once, batch(12))
    assert torch.equal(once.grad, twice.grad)


def test_one_sequence_sees_nothing_of_another():
    net, one = fast(shaken()), batch(6)
    whole = net.forward(one.tokens).copy()
    alone = [net.forward(batch_of(one, s)).copy() for s in range(6)]
    np.testing.assert_allclose(np.concatenate(alone), whole, atol=1e-5)


def batch_of(one: Batch, s: int) -> Tokens:
    tokens, positions, starts = one.tokens
    part = slice(starts[s], starts[s + 1])
    return Tokens(tokens[part], positions[part], starts[s : s + 2] - starts[s])


def test_a_mutant_without_borders_between_sequences_would_be_seen():
    net = fast(shaken())
    short = dyck.compositional_rows(np.random.default_rng(100), 40)
    short = short[(short != 0).sum(axis=1) <= 32][:2]
    tokens = Tokens.of(short, short != 0)
    right = net.forward(tokens).copy()
    mutant = tokens._replace(starts=tokens.starts[[0, -1]])
    assert np.abs(net.forward(mutant) - right).max() > 1e-2


@pytest.mark.parametrize("part", ["backward", "unembed_back"])
def test_a_wrong_derivative_would_be_seen(monkeypatch, part):
    """A mutant: one of the gradients is off by a hundredth."""
    real = getattr(ragged_passes, part)

    def mutant(*arguments):
        real(*arguments)
        gradient = arguments[1].ln2 if part == "backward" else arguments[-1]  # a gain's; a stream's
        gradient *= 1.01

    def error() -> float:
        net = fast(shaken())
        backward(net, batch(12))
        wanted = autograd(shaken(), 12)
        return max(float((net.grads[n] - g).abs().max()) for n, g in wanted.items())

    assert error() < 1e-5
    monkeypatch.setattr(ragged_passes, part, mutant)
    assert error() > 5e-5


def test_the_exponential_is_right_to_rounding_from_0_to_its_floor():
    y = np.linspace(-86.9, 0, 100_000, dtype=np.float32)
    x, powers = y.copy(), np.empty(len(y), np.int32)
    ragged_attention.exp(x, np.zeros_like(y), np.float32(1), powers)
    wanted = np.exp(y.astype(np.float64))
    assert np.abs(x / wanted - 1).max() < 5e-7
    low = np.array([-1e4, -np.inf, np.nan], np.float32)
    ragged_attention.exp(low, np.zeros_like(low), np.float32(1), powers)
    assert np.all((low[:2] >= 0) & (low[:2] < 1e-37))
    assert np.isnan(low[2])


def test_what_is_not_finite_stays_so():
    learner = TASK.learner(MODEL, RECIPE, 100)
    learner.net.values["layers.0.attn.q.weight"][0, 0] = float("nan")
    assert not torch.isfinite(learner.step(batch(8), 1e-3))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tokens": np.full(5, 40)}, r"they lie in 0…39"),
        ({"tokens": np.empty(0, np.int64)}, r"a batch has tokens"),
        ({"starts": np.array([0, 3, 3, 5])}, "starts must rise from 0"),
        ({"starts": np.array([0, 3, 4])}, "starts must rise from 0"),
        ({"positions": np.arange(-1, 4)}, "position from 0 on"),
        ({"positions": np.arange(4)}, "position from 0 on"),
        ({"positions": np.arange(60, 65)}, "do not fit in n_ctx = 64"),
    ],
)
def test_a_batch_that_would_read_other_memory_is_refused(change, says):
    good = Tokens(np.full(5, 3), np.arange(5), np.array([0, 3, 5]))
    net = fast(shaken())
    net.forward(good)
    with pytest.raises(ValueError, match=says):
        net.forward(good._replace(**change))


def test_padding_is_left_out():
    found = rows(5)
    tokens, positions, starts = Tokens.of(found, found != 0)
    assert len(tokens) == (found != 0).sum()
    for s, line in enumerate(found):
        part = slice(starts[s], starts[s + 1])
        assert np.array_equal(tokens[part], line[line != 0])
        assert np.array_equal(positions[part], np.arange(len(line[line != 0])))


# ---- the learner


@pytest.mark.parametrize(("clip", "eps"), [(0.0, 1e-8), (0.3, 1e-6)])
def test_twenty_steps_are_adamw_s(clip, eps):
    config = replace(RECIPE, clip=clip, eps=eps, weight_decay=0.1)
    learner, module = TASK.learner(MODEL, config, 100), DyckTransformer(MODEL, 100)
    optimizer = torch.optim.AdamW(module.parameters(), 3e-3, (0.9, 0.95), eps, 0.1)
    for step in range(20):
        _, loss = plain(module, 8, step + 100)
        optimizer.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
        ours = learner.step(batch(8, step + 100), 3e-3)
        assert float(ours) == pytest.approx(float(loss.detach()), abs=1e-3)
    # Adam divides by the gradient's size, so rounding in tiny gradients grows
    for name, value in learner.weights().items():
        torch.testing.assert_close(value, module.state_dict()[name], atol=2e-3, rtol=1e-3)


def test_it_learns():
    run = train(TASK, MODEL, replace(RECIPE, steps=80, lr=1e-2), 100, progress=False)
    assert run.loss[-10:].mean() < 0.6 * run.loss[0]
    assert run.history["least_accuracy"][-1] > run.history["least_accuracy"][0]


def test_accuracies_are_the_plain_module_s():
    learner, module = TASK.learner(MODEL, RECIPE, 100), shaken()
    learner.load({"flat": fast(module).flat})
    metrics = TASK.evaluate(learner)
    held_out = dyck.train_rows(np.random.default_rng([100, 2]), 20)
    labels = dyck.label(held_out)
    logits = module(torch.from_numpy(held_out)).detach().numpy()
    for name, part in OUTPUTS.items():
        right = logits[..., part].argmax(-1) == getattr(labels, name)
        assert metrics[f"{name}_accuracy"] == pytest.approx(right[labels.mask].mean(), abs=1e-9)
    assert metrics["least_accuracy"] == min(metrics[f"{name}_accuracy"] for name in OUTPUTS)


def test_rows_to_evaluate_on_are_a_seed_s_own_and_not_those_that_train():
    one, other = (TASK.learner(MODEL, RECIPE, seed).held_out[0] for seed in (100, 101))
    first = next(TASK.batches(MODEL, RECIPE, 100))
    for batch_ in (other, first):
        assert not np.array_equal(one.tokens.tokens, batch_.tokens.tokens)


def test_every_row_is_evaluated_once():
    sizes = [len(b.tokens.starts) - 1 for b in TASK.learner(MODEL, RECIPE, 100).held_out]
    assert sizes == [8, 8, 4]


def steps(learner: DyckLearner, first: int, last: int) -> None:
    for step in range(first, last):
        learner.step(batch(8, 100 + step), 3e-3)


def test_state_goes_on_bit_for_bit():
    whole, half, rest = (TASK.learner(MODEL, RECIPE, seed) for seed in (100, 100, 101))
    steps(whole, 0, 12)
    steps(half, 0, 5)
    rest.load(half.state())
    steps(half, 5, 6)  # what was copied is not touched by what comes after
    steps(rest, 5, 12)
    assert same(rest.state(), whole.state())
    assert len(whole.state()) == 4


# ---- frozen weights and donors


def given_weights(seed=101) -> dict[str, torch.Tensor]:
    state = shaken(seed=seed).state_dict()
    return {name: state[name].clone() for name in BOUNDARY}


def test_frozen_weights_stay_bit_for_bit_and_all_others_move():
    learner, given = TASK.learner(MODEL, RECIPE, 100), given_weights()
    before = learner.weights()
    learner.freeze(given)
    steps(learner, 0, 5)
    for name, value in learner.weights().items():
        if name in given:
            assert torch.equal(value, given[name])
        elif name != "pos_frame":
            assert not torch.equal(value, before[name]), name


def test_a_frozen_learner_steps_as_one_whose_boundary_gets_no_gradient():
    learner, module = TASK.learner(MODEL, RECIPE, 100), DyckTransformer(MODEL, 100)
    learner.freeze(given_weights())
    module.load_state_dict({**module.state_dict(), **given_weights()})
    free = [p for name, p in module.named_parameters() if name not in BOUNDARY]
    optimizer = torch.optim.AdamW(free, 3e-3, (0.9, 0.95), weight_decay=1e-4)
    for step in range(10):
        optimizer.zero_grad()
        plain(module, 8, step + 100)[1].backward()
        optimizer.step()
        learner.step(batch(8, step + 100), 3e-3)
    for name, value in learner.weights().items():
        torch.testing.assert_close(value, module.state_dict()[name], atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"W_E": torch.zeros(2)}, r"W_E \(2,\) is no weight of this model"),
        ({"head.weight": torch.zeros(51, 3)}, r"head.weight \(51, 3\) is no weight"),
    ],
)
def test_what_cannot_be_frozen(given, says):
    with pytest.raises(ValueError, match=says):
        TASK.learner(MODEL, RECIPE, 100).freeze(given)


def test_nothing_is_frozen_after_the_first_step():
    learner = TASK.learner(MODEL, RECIPE, 100)
    steps(learner, 0, 1)
    with pytest.raises(ValueError, match="before the first step"):
        learner.freeze(given_weights())


def test_a_state_of_another_model_or_freeze_is_refused():
    learner, frozen = TASK.learner(MODEL, RECIPE, 100), TASK.learner(MODEL, RECIPE, 100)
    frozen.freeze(given_weights())
    steps(frozen, 0, 1)
    for state in ({"flat": torch.zeros(7)}, frozen.state()):
        with pytest.raises(ValueError, match="same model with the same weights frozen"):
            learner.load(state)


DONOR = Run(TASK, MODEL, RECIPE, 100)


def test_a_donor_is_trained_once_and_its_boundary_is_kept(empty_cache, monkeypatch):
    trained, counted = [], train

    def counting(source, model, config, seed, **how):
        trained.append(seed)
        return counted(source, model, config, seed, **how)

    monkeypatch.setattr(kept_runs, "train", counting)
    children = [Run(TASK, MODEL, RECIPE, seed, donor=DONOR) for seed in (101, 102)]
    *found, donor = train_all([*children, DONOR], n_jobs=1)
    assert sorted(trained) == [100, 101, 102]
    given = {name: donor.state[name] for name in BOUNDARY}
    for child in found:
        assert all(torch.equal(child.state[name], given[name]) for name in BOUNDARY)
        alone = counted(TASK, MODEL, RECIPE, child.seed, frozen=given, progress=False)
        assert identical(child, replace(alone, final=None))
    assert not torch.equal(found[0].state["ln_out.weight"], found[1].state["ln_out.weight"])


def test_a_donor_is_in_the_key_and_only_where_there_is_one(empty_cache):
    config = replace(RECIPE, steps=1, eval_every=0)
    donor = Run(TASK, MODEL, config, 100)
    train_all([donor, Run(TASK, MODEL, config, 101, donor=donor)], n_jobs=1)
    manifests = [json.loads(path.read_text()) for path in empty_cache.glob("*/*/manifest.json")]
    parameters = [m["body"]["inputs"]["parameters"] for m in manifests]
    assert sorted(bool(p["donor"]) for p in parameters) == [False, True]
    (code,) = {tuple(sorted(m["body"]["inputs"]["code"])) for m in manifests}
    own = {"helpers.tasks.dyck", "helpers.dyck.model", "helpers.dyck.training", "helpers.fast"}
    assert own < set(code)


def test_a_branch_goes_on_with_its_parent_s_donor(empty_cache):
    parent = Run(TASK, MODEL, RECIPE, 101, donor=DONOR)
    (branch,) = train_all([Run(TASK, MODEL, RECIPE, 101, parent, DONOR)], n_jobs=1)
    (donor,) = train_all([DONOR], n_jobs=1)
    assert (branch.start, branch.stopped_at) == (12, 24)
    assert all(torch.equal(branch.state[name], donor.state[name]) for name in BOUNDARY)
    with pytest.raises(ValueError, match="keeps its parent's donor"):
        Run(TASK, MODEL, RECIPE, 101, parent)


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (dict(source=Dyck(n_eval=21)), "same task with a model of the same sizes"),
        (dict(model=replace(MODEL, d_mlp=32)), "same task with a model of the same sizes"),
        (dict(source=cyclic()), "'chain' donates no weights"),
    ],
)
def test_a_donor_that_does_not_fit(run, says):
    with pytest.raises(ValueError, match=says):
        Run(**{"source": TASK, "model": MODEL, "config": RECIPE, "seed": 101, "donor": DONOR} | run)


# ---- the task


def test_it_is_a_task_and_comes_back_from_its_spec():
    task = Dyck("own", 77)
    assert isinstance(task, Task)
    assert from_spec(json.loads(json.dumps(task.spec()))) == task
    assert "pos_frame" in task.learner(MODEL, RECIPE, 100).weights()


@pytest.mark.parametrize("bad", [{"position_frame": "mine"}, {"n_eval": 0}])
def test_an_impossible_task(bad):
    with pytest.raises(ValueError, match="position_frame is one of shared, own"):
        Dyck(**bad)


@pytest.mark.parametrize(
    ("model", "config", "says"),
    [
        (replace(MODEL, n_ctx=32), RECIPE, "64 places; the model's n_ctx is 32"),
        (MODEL, replace(RECIPE, dropout=0.1), "no dropout"),
        (MODEL, replace(RECIPE, device="cuda"), "works on the CPU"),
        (MODEL, replace(RECIPE, n_sequences=64), "leave n_sequences at 0"),
    ],
)
def test_a_model_or_recipe_that_does_not_fit(model, config, says):
    with pytest.raises(ValueError, match=says):
        train(TASK, model, config, 100, progress=False)


@pytest.mark.parametrize("n", [0, 1, BLOCK // 8, BLOCK // 8 + 1])
def test_a_stream_goes_on_anywhere(n):
    one, other = TASK.batches(MODEL, RECIPE, 100), TASK.batches(MODEL, RECIPE, 101)
    for _ in range(n):
        next(one)
    other.load(one.state())
    for _ in range(3):
        a, b = next(one), next(other)
        assert np.array_equal(a.tokens.tokens, b.tokens.tokens)
        assert np.array_equal(a.answers, b.answers)


def test_blocks_are_fresh_and_their_answers_right():
    stream = TASK.batches(MODEL, replace(RECIPE, batch_size=BLOCK), 100)
    one, two = next(stream), next(stream)
    assert not np.array_equal(one.tokens.tokens, two.tokens.tokens)
    assert np.array_equal(one.answers[:, 0], one.tokens.tokens)
    wanted = dyck.thinned_rows(np.random.default_rng([100, 1]), BLOCK)
    labels = dyck.label(wanted)
    assert np.array_equal(one.answers[:, 1], labels.depth[labels.mask])
    assert np.array_equal(one.answers[:, 2], labels.sticky[labels.mask])
