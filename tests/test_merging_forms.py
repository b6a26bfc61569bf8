"""Models folded into one form: the same logits, and a stream without a preferred basis."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.merging import Form, fold, read_by_unembedding, score, streams, transform
from helpers.merging.elements import READERS, WRITERS, from_rows, rows
from helpers.merging.exams import answer
from helpers.merging.passes import Net, advance, embed, logits
from helpers.models import ModelConfig, SmallTransformer
from helpers.symmetry.group import Symmetry, compose, random_element
from tests.merging_models import CONFIGS, exam, module

KINDS = tuple(CONFIGS)
SEEDS = st.integers(0, 2**32 - 1)
few = settings(max_examples=8, deadline=None)


def wanted(kind: str, seed: int = 100) -> torch.Tensor:
    """The module's own logits at the exam's positions."""
    rows_ = exam(kind)
    with torch.no_grad():
        return module(kind, seed)(torch.from_numpy(rows_.tokens))[torch.from_numpy(rows_.mask)]


def folded(kind: str, seed: int = 100) -> Form:
    return fold(module(kind, seed).state_dict(), CONFIGS[kind])


def gap(form: Form, kind: str, seed: int = 100) -> float:
    """The largest difference of a logit, of the largest logit."""
    right = wanted(kind, seed)
    return float((answer(form, exam(kind), torch.float64) - right).abs().max() / right.abs().max())


@pytest.mark.parametrize("kind", KINDS)
def test_folding_leaves_the_logits(kind):
    assert gap(folded(kind), kind) < 1e-12


@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_enough_for_losses_to_a_millionth(kind):
    found, right = (
        score(folded(kind), exam(kind), dtype) for dtype in (torch.float32, torch.float64)
    )
    assert found.total == pytest.approx(right.total, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@few
@given(seed=SEEDS)
def test_every_element_of_the_group_leaves_the_logits(kind, seed):
    form = folded(kind)
    g = random_element(np.random.default_rng(seed), form, kind="invertible")
    assert gap(transform(form, g), kind) < 1e-9


@pytest.mark.parametrize("part", ["QK", "VO", "scales"])
def test_what_is_no_symmetry_moves_the_logits(part):
    """The mutant: one part of an element is applied with another element's biases."""
    form, rng = folded("addition"), np.random.default_rng(100)
    g = random_element(rng, form)
    moved = transform(form, g)
    name = {"QK": "b_Q", "VO": "W_O", "scales": "b_in"}[part]
    wrong = replace(moved, **{name: getattr(form, name)})
    assert gap(wrong, "addition") > 1e-2


@given(seed=SEEDS)
@few
def test_elements_compose_and_undo_each_other(seed):
    form, rng = folded("markov"), np.random.default_rng(seed)
    g, h = (random_element(rng, form) for _ in range(2))
    twice, at_once = transform(transform(form, g), h), transform(form, compose(g, h))
    back = transform(transform(form, g), g.inverse())
    for name in ("b_Q", "W_K", "W_O", "b_in", "W_out", "W_U"):
        np.testing.assert_allclose(getattr(twice, name), getattr(at_once, name), atol=1e-10)
        np.testing.assert_allclose(getattr(back, name), getattr(form, name), atol=1e-10)


def test_layer_norm_without_folding_is_no_friend_of_rotations():
    """Why folding is needed: LayerNorm's gain and mean are tied to the coordinates."""
    net = module("markov")
    R = torch.tensor(np.linalg.qr(np.random.default_rng(100).standard_normal((16, 16)))[0])
    x = torch.randn(5, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert (net.ln_out(x @ R) - net.ln_out(x) @ R).abs().max() > 0.1


def test_eps_is_kept_and_matters():
    """A small stream is where it shows: ε is 1e-5, and the folded norm has the same one."""
    state = {
        n: v * (1e-3 if n in ("tok_embed.weight", "pos.weight") else 1)
        for n, v in module("addition").state_dict().items()
    }
    net = SmallTransformer(CONFIGS["addition"]).double()
    net.load_state_dict(state)
    rows_ = exam("addition")
    with torch.no_grad():
        right = net(torch.from_numpy(rows_.tokens))[:, -1]
    form = fold(state, CONFIGS["addition"])
    found = (answer(form, rows_, torch.float64) - right).abs().max()
    without = (answer(replace(form, eps=1e-12), rows_, torch.float64) - right).abs().max()
    assert found < 1e-11 * right.abs().max() and without > 1e-3 * right.abs().max()


@pytest.mark.parametrize("kind", ["markov", "addition"])
def test_the_stream_and_all_that_reads_it_are_centred(kind):
    form = folded(kind)
    for name in (*WRITERS, *READERS):
        assert np.abs(rows(form, name).mean(axis=1)).max() < 1e-13


@pytest.mark.parametrize("name", [*WRITERS, *READERS])
def test_rows_and_back(name):
    form = folded("dyck")
    np.testing.assert_array_equal(from_rows(form, name, rows(form, name)), getattr(form, name))


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_can_stop_and_go_on_at_every_site(kind):
    form, rows_ = folded(kind), exam(kind)
    net, mask = Net.of(form, torch.float64), torch.from_numpy(rows_.mask)
    start = embed(net, torch.from_numpy(rows_.tokens))
    for site in net.sites:
        at = net.index(site)
        found = logits(net, advance(net, start, 0, at), mask, at)
        torch.testing.assert_close(found, wanted(kind), rtol=0, atol=1e-10)


def test_streams_are_the_modules_own_up_to_their_mean():
    net, rows_ = module("markov"), exam("markov")
    with torch.no_grad():
        right = net.resid_post(torch.from_numpy(rows_.tokens)).flatten(0, 1).numpy()
    found = streams(folded("markov"), rows_)["blocks.1.hook_resid_post"]
    # attention's bias of values and the like are elsewhere now, but only within the stream
    np.testing.assert_allclose(found, right - right.mean(axis=1, keepdims=True), atol=1e-11)
    read = read_by_unembedding(folded("markov"), rows_)
    np.testing.assert_allclose(np.square(read).mean(axis=1), 1, atol=1e-3)


def test_losses_are_cross_entropies():
    rows_ = exam("dyck")
    found, right = score(folded("dyck"), rows_, torch.float64), wanted("dyck")
    for k, (name, part) in enumerate(rows_.outputs.items()):
        log_probs = right[:, part].log_softmax(-1)
        mean = -log_probs[torch.arange(len(right)), torch.from_numpy(rows_.answers[:, k])].mean()
        assert found.loss[name] == pytest.approx(float(mean), abs=1e-12)


def test_models_without_the_symmetry_are_refused():
    config = ModelConfig(7, 2, d_model=16, n_heads=2, d_mlp=24, norm="post")
    with pytest.raises(ValueError, match="fold models with norm 'pre' or 'none'"):
        fold(SmallTransformer(config).state_dict(), config)


def test_a_state_of_another_size_is_refused():
    with pytest.raises(ValueError, match="does not fit"):
        fold(module("markov").state_dict(), CONFIGS["addition"])


def test_an_unknown_site_is_named():
    with pytest.raises(ValueError, match=r"blocks\.9\.hook_resid_mid"):
        Net.of(folded("dyck")).index("blocks.9.hook_resid_mid")


def test_nan_is_refused():
    state = module("dyck").state_dict()
    state["head.weight"][0, 0] = float("nan")
    with pytest.raises(ValueError, match="NaN"):
        fold(state, CONFIGS["dyck"])


def test_the_identity_is_one():
    form = folded("addition")
    assert gap(transform(form, Symmetry.identity(form)), "addition") < 1e-12
