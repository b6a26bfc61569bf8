"""Both measures on an ideal Clock and an ideal Pizza, where theory gives their values."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.clock_pizza import (
    correct_logits,
    distance_irrelevance,
    from_embeddings,
    gradient_cosines,
    gradient_symmetricity,
    random_triples,
)
from helpers.models import ModelConfig, SmallTransformer

quick = settings(max_examples=30, deadline=None, derandomize=True)
seeds = st.integers(0, 10**6)
P = 13
EVERY = np.stack(np.meshgrid(*3 * [np.arange(P)], indexing="ij"), axis=-1).reshape(-1, 3)


def circle(ks, p=P):
    """Points (p, 2 K) on one circle a frequency: cosines first, then sines."""
    angle = 2 * torch.pi * torch.outer(torch.arange(p), torch.tensor(ks)).double() / p
    return torch.cat([angle.cos(), angle.sin()], dim=1)


def clock(ks, p=P):
    """Logit Σ cos w(a + b − c), the product of the two points turned back by c."""
    C = circle(ks, p)

    def logits(x, y):
        (x1, x2), (y1, y2) = x.chunk(2, dim=1), y.chunk(2, dim=1)
        return torch.cat([x1 * y1 - x2 * y2, x1 * y2 + x2 * y1], dim=1) @ C.T

    return logits


def pizza(ks, p=P):
    """Logit Σ |cos w(a − b)/2| cos w(a + b − c), from the sum of the two points alone."""
    C = circle(ks, p)

    def logits(x, y):
        s1, s2 = (x + y).chunk(2, dim=1)
        length = (s1**2 + s2**2).sqrt()
        return torch.cat([s1**2 - s2**2, 2 * s1 * s2], dim=1).div(2 * length.tile(2)) @ C.T

    return logits


def all_pairs(logits, ks, p=P):
    """Logits (p², p) in the order a p + b."""
    a, b = np.divmod(np.arange(p * p), p)
    E = circle(ks, p)
    return logits(E[a], E[b]).numpy()


def tokens_of(triples):
    return torch.as_tensor(triples[:, :2])


# what is planted is what it should be


def test_the_planted_functions_are_the_formulas():
    w = 2 * np.pi * np.array([2, 5]) / P
    a, b = np.divmod(np.arange(P * P), P)
    total = a[:, None, None] + b[:, None, None] - np.arange(P)[None, :, None]
    waves = np.cos(w * total)
    np.testing.assert_allclose(all_pairs(clock([2, 5]), [2, 5]), waves.sum(axis=-1), atol=1e-12)
    lengths = np.abs(np.cos(w * (a - b)[:, None] / 2))[:, None]
    np.testing.assert_allclose(
        all_pairs(pizza([2, 5]), [2, 5]), (lengths * waves).sum(axis=-1), atol=1e-12
    )


# gradient symmetricity


@pytest.mark.parametrize("ks", [[1], [4], [1, 2, 5]])
def test_a_clocks_cosine_is_that_of_the_angle_between_a_and_b(ks):
    cosines = gradient_cosines(clock(ks), circle(ks), EVERY)
    d = (EVERY[:, 0] - EVERY[:, 1])[:, None]
    np.testing.assert_allclose(
        cosines, np.cos(2 * np.pi * np.array(ks) * d / P).mean(axis=1), atol=1e-12
    )
    assert gradient_symmetricity(clock(ks), circle(ks), EVERY) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("ks", [[1], [4], [1, 2, 5]])
def test_a_pizza_is_wholly_symmetric(ks):
    assert gradient_symmetricity(pizza(ks), circle(ks), EVERY) == pytest.approx(1)


@given(seed=seeds)
@quick
def test_any_function_of_the_sum_is_symmetric_and_of_the_difference_antisymmetric(seed):
    g = torch.Generator().manual_seed(seed)
    E, A, B = (torch.randn(*shape, generator=g).double() for shape in ((P, 6), (6, 9), (9, P)))
    triples = random_triples(P, 40, np.random.default_rng(seed))
    mixed = lambda sign: lambda x, y: torch.tanh((x + sign * y) @ A) @ B  # noqa: E731
    assert gradient_symmetricity(mixed(1), E, triples) == pytest.approx(1)
    assert gradient_symmetricity(mixed(-1), E, triples) == pytest.approx(-1)


def test_both_embeddings_are_variables_even_where_the_tokens_are_one():
    # For x · u_c + y · v_c the gradients are u_c and v_c, at a = b too.
    u, v = torch.eye(2).double(), torch.tensor([[3.0, 4], [0, 1]]).double()
    triples = np.array([[0, 0, 0], [1, 1, 1], [0, 1, 0]])
    cosines = gradient_cosines(lambda x, y: x @ u.T + y @ v.T, u, triples)
    np.testing.assert_allclose(cosines, [0.6, 1, 0.6])


def test_random_triples_are_uniform_and_c_is_not_the_sum():
    triples = random_triples(P, 20_000, np.random.default_rng(0))
    assert triples.shape == (20_000, 3) and triples.min() == 0 and triples.max() == P - 1
    for column in triples.T:
        np.testing.assert_allclose(np.bincount(column) / 20_000, 1 / P, atol=0.01)
    assert np.mean(triples[:, :2].sum(axis=1) % P == triples[:, 2]) == pytest.approx(
        1 / P, abs=0.01
    )


def test_random_triples_estimate_the_clocks_mean():
    triples = random_triples(P, 4000, np.random.default_rng(0))
    assert gradient_symmetricity(clock([3]), circle([3]), triples) == pytest.approx(0, abs=0.05)


# a transformer as a function of its embeddings


def model(norm="pre", seed=0):
    return SmallTransformer(
        ModelConfig(P, 2, d_model=16, n_heads=2, d_mlp=32, norm=norm), seed=seed
    ).double()


@pytest.mark.parametrize("norm", ["pre", "post", "none"])
def test_a_model_of_its_embeddings_gives_its_logits_at_the_last_position(norm):
    net, triples = model(norm), EVERY[::17]
    E = net.tok_embed.weight.detach()
    with torch.no_grad():
        found = from_embeddings(net)(E[triples[:, 0]], E[triples[:, 1]])
        torch.testing.assert_close(found, net(tokens_of(triples))[:, -1])


def test_a_models_cosines_are_those_of_finite_differences():
    net, triples, step = model(), EVERY[[5, 700, 1500]], 1e-6
    E, logits = net.tok_embed.weight.detach(), from_embeddings(net)
    wanted = []
    for a, b, c in triples:
        sides = []
        for side in (0, 1):
            moved = []
            for sign in (1, -1):
                pair = [E[[a]].repeat(16, 1), E[[b]].repeat(16, 1)]
                pair[side] = pair[side] + sign * step * torch.eye(16)
                moved.append(logits(*pair)[:, c].detach().numpy())
            sides.append((moved[0] - moved[1]) / (2 * step))
        wanted.append(sides[0] @ sides[1] / np.prod([np.linalg.norm(s) for s in sides]))
    np.testing.assert_allclose(gradient_cosines(logits, E, triples), wanted, atol=1e-6)
    assert len(np.unique(np.round(wanted, 3))) == 3


def test_measuring_leaves_the_model_and_its_gradients_alone():
    net = model()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    with torch.no_grad():  # works inside such a block as well
        gradient_symmetricity(from_embeddings(net), net.tok_embed.weight, EVERY[:20])
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_a_logit_that_ignores_an_input_has_no_angle():
    net = model()
    with torch.no_grad():
        net.layers[0].attn.o.weight.zero_()  # the last position then knows b alone
    with pytest.raises(ValueError, match=r"at \(a, b, c\) = \[0, 0, 0\] the logit does not depend"):
        gradient_cosines(from_embeddings(net), net.tok_embed.weight, EVERY[:5])
    of_a_alone = lambda x, y: x @ x.new_ones(2, P)  # noqa: E731
    with pytest.raises(ValueError, match="does not depend on one of its inputs"):
        gradient_cosines(of_a_alone, circle([1]), EVERY[:5])


def test_a_model_of_nans_has_no_angle():
    net = model()
    with torch.no_grad():
        net.head.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="or is NaN"):
        gradient_cosines(from_embeddings(net), net.tok_embed.weight, EVERY[:5])


@pytest.mark.parametrize("shape", [(0, 3), (4, 2), (3,)])
def test_triples_of_another_shape_are_named(shape, unchecked):
    with pytest.raises(ValueError, match=r"triples must be \(n, 3\) with n ≥ 1; got shape"):
        gradient_cosines(clock([1]), circle([1]), np.zeros(shape, dtype=int))


@pytest.mark.parametrize("bad", [-1, P])
def test_a_triple_outside_the_vocabulary_is_named(bad):
    with pytest.raises(ValueError, match=rf"classes below p = {P}; got {bad}"):
        gradient_cosines(clock([1]), circle([1]), np.array([[bad, bad, bad]]))


# distance irrelevance


@pytest.mark.parametrize("ks", [[1], [1, 2, 5]])
def test_a_pizzas_correct_logit_depends_on_the_distance_alone(ks):
    L = correct_logits(all_pairs(pizza(ks), ks))
    a, b = np.divmod(np.arange(P * P), P)
    wanted = np.abs(np.cos(np.pi * np.outer(a - b, ks) / P)).sum(axis=1).reshape(P, P)
    np.testing.assert_allclose(L, wanted, atol=1e-12)
    assert distance_irrelevance(L) == pytest.approx(0, abs=1e-12)


def test_a_clocks_correct_logit_is_constant_and_has_no_q():
    L = correct_logits(all_pairs(clock([1, 4]), [1, 4]))
    np.testing.assert_allclose(L, 2, atol=1e-12)
    with pytest.raises(ValueError, match="same for all pairs"):
        distance_irrelevance(L)


def test_a_clock_with_unequal_answers_is_blind_to_distance():
    # Whatever the correct logit owes to the sum, it spreads alike over every distance.
    rng = np.random.default_rng(0)
    a, b = np.divmod(np.arange(P * P), P)
    L = rng.standard_normal(P)[(a + b) % P].reshape(P, P)
    assert distance_irrelevance(L) == pytest.approx(1)


@given(seed=seeds, share=st.floats(0, 1))
@quick
def test_a_mixture_has_the_share_of_the_sums_spread(seed, share):
    # Sum and distance are independent for odd p, so their variances add.
    rng = np.random.default_rng(seed)
    f, g = (x / x.std() for x in rng.standard_normal((2, P)))
    a, b = np.divmod(np.arange(P * P), P)
    L = np.sqrt(1 - share) * f[(b - a) % P] + np.sqrt(share) * g[(a + b) % P]
    L = 5 + 2 * L.reshape(P, P)
    assert distance_irrelevance(L) == pytest.approx(np.sqrt(share), abs=1e-7)
    assert distance_irrelevance(L.T) == pytest.approx(np.sqrt(share), abs=1e-7)


def test_independent_noise_is_close_to_1():
    p = 101
    q = distance_irrelevance(np.random.default_rng(0).standard_normal((p, p)))
    # E std of p draws, divisor p, is 1 − 3/(4 p) to first order
    assert q == pytest.approx(1 - 0.75 / p, abs=0.01)


@given(seed=seeds, p=st.sampled_from([3, 6, 13]))
@quick
def test_q_lies_between_0_and_1_and_ignores_unit_and_origin(seed, p):
    L = np.random.default_rng(seed).standard_normal((p, p))
    q = distance_irrelevance(L)
    assert 0 <= q <= 1 + 1e-12
    assert distance_irrelevance(-7 * L + 3) == pytest.approx(q)


def test_correct_logits_are_at_a_plus_b():
    p = 5
    logits = np.zeros((p * p, p))
    for a in range(p):
        for b in range(p):
            logits[a * p + b, (a + b) % p] = 10 * a + b
    np.testing.assert_array_equal(correct_logits(logits), 10 * np.arange(p)[:, None] + np.arange(p))


@pytest.mark.parametrize("shape", [(24, 5), (25, 6), (5,)])
def test_logits_that_are_not_of_all_pairs_are_named(shape, unchecked):
    with pytest.raises(ValueError, match=r"need logits \(p², p\)"):
        correct_logits(np.zeros(shape))


@pytest.mark.parametrize(
    ("L", "message"),
    [
        (np.zeros((3, 4)), r"must be \(p, p\); got shape \(3, 4\)"),
        (np.full((3, 3), np.nan), "NaN or infinity"),
        (np.full((3, 3), 3.7), "same for all pairs"),
    ],
)
def test_tables_without_a_q_are_named(L, message, unchecked):
    with pytest.raises(ValueError, match=message):
        distance_irrelevance(L)
