"""The fast step computes what the plain module, autograd and AdamW compute."""

import copy
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.fast import LastPosition, PairLearner, kernels, passes
from helpers.models import NORMS, ModelConfig, SmallTransformer, to_bridge

TIGHT = {"atol": 1e-5, "rtol": 1e-5}


def config(norm="pre", n_layers=2, n_heads=4, p=11) -> ModelConfig:
    return ModelConfig(p, 2, n_layers, d_model=16, n_heads=n_heads, d_mlp=24, norm=norm)


def shaken(model: ModelConfig, seed=0, basis=None) -> LastPosition:
    """A model with every parameter away from its start, so that no gain or bias can hide."""
    net = LastPosition(model, seed, basis)
    draw = torch.Generator().manual_seed(seed)
    net.parameters.flat += 0.1 * torch.randn(net.parameters.flat.shape, generator=draw)
    return net


def plain(net: LastPosition) -> SmallTransformer:
    module = SmallTransformer(net.config)
    module.load_state_dict(net.parameters.weights())
    return module


def pairs(p: int, n: int, seed=0) -> torch.Tensor:
    return torch.randint(p, (n, 2), generator=torch.Generator().manual_seed(seed))


def backward(net: LastPosition, tokens: torch.Tensor) -> None:
    """Gradient of the mean cross-entropy of (a + b) mod p."""
    answers = tokens.sum(1) % net.config.d_vocab
    dlogits = torch.softmax(net.logits(*tokens.T.contiguous()), 1)
    dlogits[torch.arange(len(tokens)), answers] -= 1
    net.backward(dlogits / len(tokens))


def autograd(module: SmallTransformer, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
    """Gradients in float64, so that what is compared with has no rounding of its own."""
    module = copy.deepcopy(module).double()
    loss = F.cross_entropy(module(tokens)[:, -1], tokens.sum(1) % module.config.d_vocab)
    names, parameters = zip(*module.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters)
    return {name: value.float() for name, value in zip(names, gradients, strict=True)}


@pytest.mark.parametrize(("norm", "layers"), list(itertools.product(NORMS, (1, 2, 3))))
def test_logits_and_gradients_are_the_plain_module_s(norm, layers):
    net, tokens = shaken(config(norm, layers)), pairs(11, 60)
    module = plain(net)
    torch.testing.assert_close(net.logits(*tokens.T.contiguous()), module(tokens)[:, -1], **TIGHT)
    backward(net, tokens)
    wanted = autograd(module, tokens)
    assert set(wanted) <= set(net.parameters.grads)
    for name, gradient in wanted.items():
        torch.testing.assert_close(net.parameters.grads[name], gradient, msg=name, **TIGHT)


@settings(max_examples=15, deadline=None)
@example("none", 2, 2, 2, 39)  # where PyTorch's own float32 gradient is off by 1.2e-5
@given(
    st.sampled_from(NORMS),
    st.integers(1, 2),
    st.sampled_from((1, 2, 8)),
    st.integers(1, 40),
    st.integers(0, 1000),
)
def test_any_size_and_batch(norm, layers, heads, n, seed):
    net, tokens = shaken(config(norm, layers, heads, p=7), seed), pairs(7, n, seed)
    backward(net, tokens)
    for name, gradient in autograd(plain(net), tokens).items():
        torch.testing.assert_close(net.parameters.grads[name], gradient, msg=name, **TIGHT)


def test_a_second_pass_forgets_the_first():
    net, twice = shaken(config()), shaken(config())
    backward(twice, pairs(11, 33, seed=1))
    backward(twice, pairs(11, 60))
    backward(net, pairs(11, 60))
    assert torch.equal(net.parameters.grad, twice.parameters.grad)


@pytest.mark.parametrize("norm", ["pre", "none"])
def test_the_weights_load_into_a_bridge(norm):
    net, tokens = shaken(config(norm)), pairs(11, 40)
    bridge = to_bridge(net.config, net.parameters.weights())
    with torch.no_grad():
        logits = bridge(tokens)[:, -1]
    torch.testing.assert_close(net.logits(*tokens.T.contiguous()), logits, **TIGHT)


def test_a_wrong_derivative_would_be_seen(monkeypatch):
    """A mutant: the gradient through the ReLU's closed side."""
    name, tokens = "layers.0.mlp.fc_in.weight", pairs(11, 60)

    def error() -> float:
        net = shaken(config())
        backward(net, tokens)
        return float((net.parameters.grads[name] - autograd(plain(net), tokens)[name]).abs().max())

    monkeypatch.setattr(passes, "backward", passes.backward.py_func)  # which a mutant can reach
    assert error() < 1e-5
    monkeypatch.setattr(kernels, "relu_back", lambda dx, x, bias: bias.__setitem__(..., dx.sum(0)))
    assert error() > 1e-3


# ---- the token embedding confined to a subspace


def basis(p=11, r=5) -> torch.Tensor:
    return torch.linalg.qr(torch.randn(p, r, generator=torch.Generator().manual_seed(3)))[0]


def test_a_confined_embedding_stays_in_its_span():
    B = basis()
    net, free = LastPosition(config(), 0, B), LastPosition(config(), 0)
    E = net.parameters.weights()["tok_embed.weight"]
    torch.testing.assert_close(B @ B.T @ E, E, **TIGHT)
    assert sorted(net.parameters.weights()) == sorted(free.parameters.weights())


def test_a_confined_embedding_starts_as_the_free_one_s_projection_or_larger():
    wide, B = ModelConfig(101, 2, d_model=256, d_mlp=8), basis(101, 7)
    free = SmallTransformer(wide, 0).state_dict()["tok_embed.weight"]
    E = LastPosition(wide, 0, B).parameters.tokens()
    torch.testing.assert_close(E, B @ B.T @ free, **TIGHT)
    grown = LastPosition(wide, 0, B, (101 / 7) ** 0.5).parameters.tokens()
    assert float(grown.square().mean()) == pytest.approx(0.25, rel=0.15)  # 1,800 numbers: ± 3 %


def test_the_code_s_gradient_is_the_embedding_s_projected():
    B, tokens = basis(), pairs(11, 60)
    net = shaken(config(), basis=B)
    backward(net, tokens)
    wanted = B.T @ autograd(plain(net), tokens)["tok_embed.weight"]
    torch.testing.assert_close(net.parameters.grads["tok_embed.code"], wanted, **TIGHT)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (torch.ones(11), "is \\(11, r\\)"),
        (torch.ones(10, 2), "is \\(11, r\\)"),
        (torch.ones(11, 2), "torch.linalg.qr"),
        (torch.full((11, 2), float("nan")), "torch.linalg.qr"),
    ],
)
def test_a_basis_that_is_none(bad, says):
    with pytest.raises(ValueError, match=says):
        LastPosition(config(), 0, bad)


def test_only_pairs():
    with pytest.raises(ValueError, match="n_ctx to 2, not 3"):
        LastPosition(ModelConfig(11, 3, d_model=16, d_mlp=24), 0)


# ---- the optimiser


@pytest.mark.parametrize(
    ("norm", "clip", "eps"), [("pre", 0.0, 1e-8), ("post", 0.0, 1e-3), ("none", 0.3, 1e-8)]
)
def test_twenty_steps_are_adamw_s(norm, clip, eps):
    learner = PairLearner(config(norm), 1, betas=(0.9, 0.98), weight_decay=1.0, eps=eps, clip=clip)
    module = SmallTransformer(config(norm), 1)
    optimizer = torch.optim.AdamW(module.parameters(), 3e-3, (0.9, 0.98), eps, 1.0)
    for step in range(20):
        tokens = pairs(11, 50, seed=step)
        loss = F.cross_entropy(module(tokens)[:, -1], tokens.sum(1) % 11)
        optimizer.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
        a, b = tokens.T.contiguous()
        ours = learner.step((a, b, (a + b) % 11), 3e-3)
        assert float(ours) == pytest.approx(float(loss.detach()), abs=1e-4)
    # Adam divides by the gradient's size, so rounding in tiny gradients grows to 1e-4.
    # A key's bias adds the same to every score: its gradient is rounding and nothing else.
    for name, value in learner.weights().items():
        if name.endswith("attn.k.bias"):
            continue
        torch.testing.assert_close(value, module.state_dict()[name], atol=2e-3, rtol=1e-3)


def steps(learner: PairLearner, first: int, last: int) -> None:
    for step in range(first, last):
        a, b = pairs(11, 50, seed=step).T.contiguous()
        learner.step((a, b, (a + b) % 11), 3e-3)


def learner(seed=1) -> PairLearner:
    return PairLearner(config(), seed, betas=(0.9, 0.98), weight_decay=1.0)


def test_state_goes_on_bit_for_bit():
    whole, half, rest = learner(), learner(), learner(seed=2)
    steps(whole, 0, 20)
    steps(half, 0, 8)
    rest.load(half.state())
    steps(half, 8, 9)  # what was copied is not touched by what comes after
    steps(rest, 8, 20)
    state, wanted = rest.state(), whole.state()
    assert state.keys() == wanted.keys() and len(state) == 4
    assert all(torch.equal(state[name], wanted[name]) for name in state)


def test_a_state_without_moments_differs():
    whole, rest = learner(), learner()
    steps(whole, 0, 20)
    half = learner()
    steps(half, 0, 8)
    rest.load({"flat": half.state()["flat"]})
    steps(rest, 8, 20)
    assert not torch.equal(rest.state()["flat"], whole.state()["flat"])


def test_a_state_of_another_model():
    with pytest.raises(ValueError, match="start from a run of the same model"):
        learner().load({"flat": torch.zeros(7)})


def test_what_is_not_finite_stays_so():
    net = learner()
    net.net.parameters.flat[5] = float("nan")
    a, b = pairs(11, 50).T.contiguous()
    assert not torch.isfinite(net.step((a, b, (a + b) % 11), 3e-3))


def test_accuracy_counts_right_answers():
    net = learner()
    a, b = pairs(11, 50).T.contiguous()
    answers = net.net.logits(a, b).argmax(1)
    assert net.accuracy(a, b, answers).all()
    assert not net.accuracy(a, b, (answers + 1) % 11).any()
    assert np.isclose(
        net.accuracy(a, b, torch.zeros_like(a)).float().mean(), (answers == 0).float().mean()
    )


def test_a_limit_that_no_gradient_reaches_changes_nothing():
    free, wide = (  # with an eps by which Adam sees the gradient's size
        PairLearner(config(), 1, betas=(0.9, 0.98), weight_decay=1.0, eps=1e-2, clip=clip)
        for clip in (0.0, 1e6)
    )
    steps(free, 0, 5)
    steps(wide, 0, 5)
    assert torch.equal(free.state()["flat"], wide.state()["flat"])


def test_a_state_that_was_taken_stays_as_it_was():
    net, other = learner(), learner(seed=2)
    steps(net, 0, 4)
    taken, weights = net.state(), net.weights()
    before = {name: value.clone() for name, value in (taken | weights).items()}
    steps(net, 4, 8)
    other.load(taken)
    steps(other, 4, 8)
    assert all(torch.equal((taken | weights)[name], before[name]) for name in before)
    assert torch.equal(net.state()["flat"], other.state()["flat"])


@pytest.mark.parametrize("c", [[11], [-1]])
def test_answers_outside_the_vocabulary_touch_no_memory(c):
    with pytest.raises(ValueError, match=r"tokens lie in 0…10"):
        learner().step((*torch.tensor([[1], [2]]), torch.tensor(c)), 1e-3)


@pytest.mark.parametrize(("a", "b"), [([11], [1]), ([-1], [1]), ([1], [500]), ([], [])])
def test_tokens_outside_the_vocabulary_touch_no_memory(a, b):
    a, b = (torch.tensor(x, dtype=torch.long) for x in (a, b))
    with pytest.raises(ValueError, match=r"tokens lie in 0…10|rows of as many tokens"):
        LastPosition.logits(shaken(config()), a, b)


def test_loading_a_start_forgets_the_moments():
    net, fresh = learner(), learner()
    start = net.state()
    steps(net, 0, 3)
    net.load(start)
    steps(net, 3, 6)
    steps(fresh, 3, 6)
    assert torch.equal(net.state()["flat"], fresh.state()["flat"])
