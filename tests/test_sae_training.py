"""SAEs: the hand-written step against autograd, planted features found, what a seed decides."""

import numpy as np
import pytest
import torch

from helpers.alignment.variance import explained_variance
from helpers.sae import (
    ReluSAE,
    SAEConfig,
    TopKSAE,
    activity,
    encoded,
    expected_max_cosine,
    match_rows,
    planted_activations,
    reconstructed,
    train_saes,
)
from helpers.sae.model import check_k
from helpers.sae.stack import Stack
from helpers.sae.training import minibatches

D_IN, D_SAE = 12, 48
relu_and_top_k = pytest.mark.parametrize(("l1", "k"), [(0.0, None), (0.3, None), (0.0, 4)])


def stack(seed=100, m=1, l1=0.3, k=None):
    """A stack some way from its start, so that no bias is 0 and no decoder the encoder's copy."""
    g = torch.Generator().manual_seed(seed)
    made = Stack(torch.randn(m, D_IN, generator=g), D_SAE, [seed + j for j in range(m)], l1=l1, k=k)
    made.x += 0.1 * torch.randn(len(made.x), generator=g)
    made.renormalise()
    return made


def rows(seed=110, m=1, n=32):
    return torch.randn(m, n, D_IN, generator=torch.Generator().manual_seed(seed))


def plain_loss(w, x, l1, k):
    """The loss as it reads in the paper, for one SAE."""
    pre = (x - w["b_dec"]) @ w["W_enc"] + w["b_enc"]
    f = pre.relu()
    if k is not None:
        threshold = pre.sort(dim=1, descending=True).values[:, k - 1 : k]
        f = f * (pre >= threshold)
    x_hat = f @ w["W_dec"] + w["b_dec"]
    return ((x_hat - x) ** 2).sum(dim=1).mean() + l1 * f.sum(dim=1).mean()


def weights_of(made, j=0):
    w = {name: value[j].clone() for name, value in made.weights.items()}
    return {
        "W_enc": w["W_enc_rows"].T.clone(),
        "W_dec": w["W_dec"],
        "b_enc": w["b_enc"][0],
        "b_dec": w["b_dec"][0],
    }


def autograd(w, x, l1, k):
    """Loss and gradients, without the part along the decoder's rows."""
    w = {name: value.clone().requires_grad_() for name, value in w.items()}
    loss = plain_loss(w, x, l1, k)
    loss.backward()
    g = {name: value.grad for name, value in w.items()}
    W = w["W_dec"].detach()
    g["W_dec"] = g["W_dec"] - (g["W_dec"] * W).sum(dim=1, keepdim=True) * W
    return loss.detach(), g


def gradients_of(made, j=0):
    g = {name: value[j] for name, value in made.grads.items()}
    return {
        "W_enc": g["W_enc_rows"].T,
        "W_dec": g["W_dec"],
        "b_enc": g["b_enc"][0],
        "b_dec": g["b_dec"][0],
    }


def worst(one, two):
    """Largest difference over all weights, in units of the largest entry of each."""
    return max(float((one[n] - two[n]).abs().max() / two[n].abs().max()) for n in two)


@relu_and_top_k
def test_the_step_has_autograds_loss_and_gradient(l1, k):
    made, x = stack(m=2, l1=l1, k=k), rows(m=2)
    loss = made.backward(x)
    for j in range(2):
        plain, gradient = autograd(weights_of(made, j), x[j], l1, k)
        torch.testing.assert_close(loss[j], plain, rtol=1e-5, atol=0)
        assert worst(gradients_of(made, j), gradient) < 1e-5


@relu_and_top_k
def test_a_gradient_without_the_bias_before_the_encoder_is_caught(l1, k):
    made, x = stack(l1=l1, k=k), rows()
    made.backward(x)
    w = weights_of(made)
    g = gradients_of(made)
    broken = dict(g, b_dec=g["b_dec"] + w["W_enc"] @ g["b_enc"])
    assert worst(broken, autograd(w, x[0], l1, k)[1]) > 1e-2


def test_top_k_by_rows_is_top_k_by_dense_products():
    made, x = stack(m=2, l1=0.0, k=5), rows(m=2)
    made.backward(x)
    by_rows = made.grad.clone()
    made._backward_dense(x)
    made.grads["b_dec"].sub_(made.grads["b_enc"] @ made.weights["W_enc_rows"])
    made._project()
    torch.testing.assert_close(by_rows, made.grad, rtol=1e-5, atol=1e-5)


def test_fewer_positive_entries_than_k_are_no_trouble():
    made, x = stack(l1=0.0, k=40), rows()
    loss = made.backward(x)
    positive = ((x[0] - made.weights["b_dec"][0]) @ made.weights["W_enc_rows"][0].T) > 0
    assert (positive.sum(dim=1) < 40).any()
    plain, gradient = autograd(weights_of(made), x[0], 0.0, 40)
    torch.testing.assert_close(loss[0], plain, rtol=1e-5, atol=0)
    assert worst(gradients_of(made), gradient) < 1e-5


@relu_and_top_k
def test_training_is_the_plain_loop(l1, k):
    """Thirty steps of Adam from the same start, in raw units, end at the same weights."""
    X = rows(seed=120, n=200)[0].numpy() * 3 + 1
    config = SAEConfig(expansion=4, l1=l1, k=k, steps=30, batch=16, lr=1e-2, decay=0.5)
    sae = train_saes([X], config, init_seeds=[100], data_seed=121)[0].sae

    mean = X.mean(axis=0)
    scale = np.sqrt(D_IN) / np.linalg.norm(X - mean, axis=1).mean()
    scale, mean = float(scale), torch.tensor(mean * scale, dtype=torch.float32)
    w = weights_of(Stack(mean[None], 4 * D_IN, [100], l1=l1, k=k))
    optimizer = torch.optim.Adam(w.values(), lr=1e-2)
    batches = minibatches(200, 16, 121)
    for step in range(30):
        _, gradient = autograd(w, torch.tensor(X * scale)[next(batches)], l1, k)
        for name, value in w.items():
            value.grad = gradient[name]
        optimizer.param_groups[0]["lr"] = 1e-2 * min(1, (30 - step) / 15)
        optimizer.step()
        w["W_dec"] /= w["W_dec"].norm(dim=1, keepdim=True)
    for name, by in {"W_enc": 1, "W_dec": 1, "b_enc": scale, "b_dec": scale}.items():
        torch.testing.assert_close(getattr(sae, name), w[name] / by, rtol=1e-4, atol=1e-4)


def planted(seed, n=8000, **kwargs):
    made = planted_activations(np.random.default_rng(seed), n, **kwargs)
    return made, made.activations.astype(np.float32)


SPARSE = SAEConfig(k=8, steps=600)


@pytest.mark.parametrize("config", [SPARSE, SAEConfig(l1=3.0, steps=600)], ids=["top-k", "L1"])
def test_a_sparse_sae_finds_planted_features(config):
    truth, X = planted(100)
    sae = train_saes([X], config, init_seeds=[100], data_seed=100)[0].sae
    assert activity(sae, X).l0 < 20
    assert match_rows(truth.dictionary, sae.decoder).mean >= 0.9


def test_features_that_were_not_planted_are_not_found():
    _, X = planted(100)
    other, _ = planted(101)
    sae = train_saes([X], SPARSE, init_seeds=[100], data_seed=100)[0].sae
    chance = expected_max_cosine(sae.d_sae, sae.d_in)
    assert match_rows(other.dictionary, sae.decoder).mean == pytest.approx(chance, abs=0.05)


def test_a_dense_sae_explains_held_out_activations_and_fires_often():
    _, X = planted(100)
    X, held_out = X[:6000], X[6000:]
    config = SAEConfig(l1=0.01, steps=600)
    sae = train_saes([X], config, init_seeds=[100], data_seed=100)[0].sae
    assert explained_variance(held_out, reconstructed(sae, held_out)) >= 0.97
    assert activity(sae, held_out).l0 > 64


def test_a_heavier_penalty_makes_fewer_features_active():
    _, X = planted(100, n=2000)
    l0 = []
    for l1 in (0.01, 1.0, 3.0):
        config = SAEConfig(l1=l1, steps=200)
        l0.append(activity(train_saes([X], config, init_seeds=[100], data_seed=100)[0].sae, X).l0)
    assert l0[0] > 1.5 * l0[1] > 1.5**2 * l0[2]


SHORT = {"expansion": 2, "steps": 20, "batch": 32}
both = pytest.mark.parametrize("kind", [{"l1": 0.1}, {"k": 4}], ids=["relu", "top-k"])


@both
def test_the_same_seeds_give_the_same_weights(kind):
    X = rows(n=100)[0].numpy()
    one, two = (
        train_saes([X], SAEConfig(**SHORT, **kind), init_seeds=[100], data_seed=101)[0].sae
        for _ in range(2)
    )
    assert torch.equal(one.W_dec, two.W_dec) and torch.equal(one.W_enc, two.W_enc)


@both
def test_an_sae_in_a_stack_is_trained_as_it_would_be_alone(kind):
    X = [rows(seed, n=100)[0].numpy() for seed in (100, 101, 102)]
    config = SAEConfig(**SHORT, **kind)
    together = train_saes(X, config, init_seeds=[103, 104, 105], data_seed=106)
    for x, seed, trained in zip(X, (103, 104, 105), together, strict=True):
        alone = train_saes([x], config, init_seeds=[seed], data_seed=106)[0]
        assert trained.init_seed == seed and trained.scale == alone.scale
        torch.testing.assert_close(trained.sae.W_dec, alone.sae.W_dec, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(trained.losses, alone.losses, rtol=1e-4)


def test_one_matrix_serves_many_initialisations():
    X = rows(n=100)[0].numpy()
    a, b, again = train_saes([X], SAEConfig(**SHORT), init_seeds=[100, 101, 100], data_seed=102)
    torch.testing.assert_close(a.sae.W_dec, again.sae.W_dec, rtol=1e-4, atol=1e-5)
    assert match_rows(a.sae.decoder, b.sae.decoder).mean < 0.9


def test_the_start_depends_on_the_initialisation_seed_alone():
    zero, one = (Stack(torch.full((1, D_IN), c), D_SAE, [100], l1=0.0, k=None) for c in (0.0, 1.0))
    assert torch.equal(zero.weights["W_dec"], one.weights["W_dec"])
    other = Stack(torch.zeros(1, D_IN), D_SAE, [101], l1=0.0, k=None)
    assert not torch.allclose(zero.weights["W_dec"], other.weights["W_dec"])


def test_the_start_has_a_unit_decoder_and_its_transpose_as_encoder():
    sae = Stack(torch.zeros(1, D_IN), D_SAE, [100], l1=0.0, k=None).sae(0)
    assert torch.equal(sae.W_enc, sae.W_dec.T)
    torch.testing.assert_close(sae.W_dec.norm(dim=1), torch.ones(D_SAE))


def test_the_order_of_the_data_has_a_seed_of_its_own():
    X = rows(n=100)[0].numpy()
    one, two = (
        train_saes([X], SAEConfig(**SHORT), init_seeds=[100], data_seed=seed)[0].sae
        for seed in (101, 102)
    )
    assert not torch.allclose(one.W_dec, two.W_dec)


def test_every_row_is_seen_once_before_any_comes_again():
    batches = minibatches(10, 4, 100)
    seen = torch.cat([next(batches) for _ in range(5)])
    assert sorted(seen[:10].tolist()) == sorted(seen[10:].tolist()) == list(range(10))
    assert seen[:10].tolist() != seen[10:].tolist()


@both
def test_units_and_origin_of_the_activations_do_not_matter(kind):
    """The scale is folded away: 8 x + 1 gives the same directions, with biases in its units."""
    X = rows(n=100)[0].numpy()
    config = SAEConfig(**SHORT, **kind)
    one = train_saes([X], config, init_seeds=[100], data_seed=101)[0]
    two = train_saes([8 * X + 1], config, init_seeds=[100], data_seed=101)[0]
    assert one.scale == pytest.approx(8 * two.scale, rel=1e-5)
    torch.testing.assert_close(one.sae.W_dec, two.sae.W_dec, rtol=1e-3, atol=1e-3)
    x = torch.tensor(X)
    torch.testing.assert_close(8 * one.sae(x) + 1, two.sae(8 * x + 1), rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(8 * one.sae.encode(x), two.sae.encode(8 * x + 1), atol=0.02, rtol=0)


def test_inputs_are_scaled_to_length_root_d():
    X = rows(n=100)[0].numpy()
    scale = train_saes([X], SAEConfig(**SHORT), init_seeds=[100], data_seed=101)[0].scale
    lengths = np.linalg.norm(scale * (X - X.mean(axis=0)), axis=1)
    assert lengths.mean() == pytest.approx(np.sqrt(D_IN), rel=1e-5)


def test_decoder_rows_keep_length_one():
    X = rows(n=100)[0].numpy()
    sae = train_saes([X], SAEConfig(**SHORT, l1=0.1), init_seeds=[100], data_seed=101)[0].sae
    torch.testing.assert_close(sae.W_dec.norm(dim=1), torch.ones(sae.d_sae))


def test_encoding_fires_where_the_formula_is_positive():
    W_dec = torch.eye(2).repeat(2, 1) * torch.tensor([1.0, 1, -1, -1])[:, None]
    sae = ReluSAE(W_dec.T.clone(), torch.tensor([0, 0, 0, -1.0]), W_dec, torch.tensor([1.0, 1]))
    f = sae.encode(torch.tensor([[3.0, 0.5]]))
    assert torch.equal(f, torch.tensor([[2.0, 0, 0, 0]]))
    assert torch.equal(sae.decode(f), torch.tensor([[3.0, 1.0]]))


def test_a_top_k_code_keeps_the_largest_and_drops_the_negative():
    W_dec = torch.eye(3)
    sae = TopKSAE(torch.eye(3), torch.zeros(3), W_dec, torch.zeros(3), k=2)
    f = sae.encode(torch.tensor([[3.0, 1, 2], [-1.0, -2, 5]]))
    assert torch.equal(f, torch.tensor([[3.0, 0, 2], [0, 0, 5]]))


def test_activity_counts_what_fires():
    sae = ReluSAE(torch.eye(2), torch.tensor([0, -9.0]), torch.eye(2), torch.zeros(2))
    found = activity(sae, np.array([[1.0, 1], [2, 1], [-1, 1], [-1, 1]], dtype=np.float32))
    assert found.rate.tolist() == [0.5, 0] and found.live.tolist() == [True, False]
    assert found.l0 == 0.5 and found.share_dead == 0.5 and found.n == 4


def test_long_matrices_are_taken_in_pieces():
    sae = stack(l1=0.3).sae(0)
    X = rows(n=5000)[0].numpy()
    with torch.no_grad():
        np.testing.assert_allclose(encoded(sae, X), sae.encode(torch.tensor(X)), atol=1e-5)
        np.testing.assert_allclose(reconstructed(sae, X), sae(torch.tensor(X)), atol=1e-5)


def test_divergence_is_named_with_its_step_and_advice():
    with pytest.raises(FloatingPointError, match=r"SAE \[0\] of 1 .* step 20 .* lower lr"):
        train_saes(
            [rows(n=100)[0].numpy()], SAEConfig(**SHORT, lr=1e30), init_seeds=[100], data_seed=101
        )


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((3, 4, 5), np.float32), r"must be \(n, d_in\) .* \(3, 4, 5\).*reshape"),
        (np.ones((10, 4), np.float32), "constant"),
        (np.array([[1, 2], [np.nan, 1], [3, 4]]), "NaN or infinity, first in row 1 of 3"),
        (np.zeros((1, 4), np.float32), "n ≥ 2"),
    ],
)
def test_bad_activations_are_named(X, message, unchecked):
    with pytest.raises(ValueError, match=message):
        train_saes([X], SAEConfig(**SHORT), init_seeds=[100], data_seed=100)


def test_matrices_of_different_length_are_refused(unchecked):
    X = [rows(n=n)[0].numpy() for n in (50, 60)]
    with pytest.raises(ValueError, match="one shape"):
        train_saes(X, SAEConfig(**SHORT), init_seeds=[100, 101], data_seed=100)


def test_as_many_matrices_as_seeds_or_one():
    X = [rows(n=50)[0].numpy()] * 2
    with pytest.raises(ValueError, match="3 initialisation seeds"):
        train_saes(X, SAEConfig(**SHORT), init_seeds=[100, 101, 102], data_seed=100)


def test_k_above_the_dictionary_is_refused():
    with pytest.raises(ValueError, match=r"d_sae = 24.*k = 25"):
        train_saes(
            [rows(n=50)[0].numpy()], SAEConfig(**SHORT, k=25), init_seeds=[100], data_seed=100
        )
    with pytest.raises(ValueError, match="k = 0"):
        check_k(0, 4)


@pytest.mark.parametrize("bad", [{"k": 3, "l1": 0.1}, {"steps": 0}, {"lr": 0.0}, {"l1": -1.0}])
def test_a_config_that_makes_no_sae_is_refused(bad):
    with pytest.raises(ValueError, match=next(iter(bad))):
        SAEConfig(**bad)


def test_activations_of_another_dimension_are_refused(unchecked):
    sae = stack().sae(0)
    with pytest.raises(ValueError, match=r"\(…, 12\); got shape \(5, 7\)"):
        sae.encode(torch.zeros(5, 7))
    with pytest.raises(ValueError, match=r"\(…, 48\); got \(5, 7\)"):
        sae.decode(torch.zeros(5, 7))
    with pytest.raises(ValueError, match=r"\(n, 12\)"):
        encoded(sae, np.zeros((5, 7), np.float32))


def test_weights_that_do_not_fit_are_refused(unchecked):
    W = torch.eye(3)
    with pytest.raises(ValueError, match=r"W_dec \(3, 3\)"):
        ReluSAE(W, torch.zeros(2), W, torch.zeros(3))
    with pytest.raises(ValueError, match="length 1"):
        ReluSAE(W, torch.zeros(3), 2 * W, torch.zeros(3))
    with pytest.raises(ValueError, match="b_enc holds NaN"):
        ReluSAE(W, torch.full((3,), torch.nan), W, torch.zeros(3))
