"""Training: one seed is one result, and it comes near the theory's limit."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import settings

from helpers.models import ModelConfig, SmallTransformer
from helpers.tasks.hmm import mess3
from helpers.tasks.markov import cyclic
from helpers.training import (
    Sequences,
    TrainConfig,
    next_token_loss,
    train,
)
from tests.toy import same

CHAIN = cyclic()
MODEL = ModelConfig(d_vocab=4, n_ctx=12, d_model=16, n_heads=2, d_mlp=32)
SHORT = TrainConfig(steps=12, batch_size=8, lr=1e-2, warmup=3)
quick = settings(max_examples=40, deadline=None, derandomize=True)


def batches(config, n_ctx, seed):
    """The whole data of one run."""
    stream = Sequences(CHAIN, config, n_ctx, seed)
    return [next(stream) for _ in range(config.steps)]


def plain(config, seed):
    """The loop in its plainest words, for a chain."""
    torch.manual_seed(seed)
    net = SmallTransformer(MODEL, seed, config.dropout).train()
    optimizer = torch.optim.AdamW(
        net.parameters(), config.lr, config.betas, weight_decay=config.weight_decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, config.lr_factor)
    rng, losses, order = np.random.default_rng([seed, 1]), [], []
    data = CHAIN.sample(rng, config.n_sequences, MODEL.n_ctx) if config.n_sequences else None
    for _ in range(config.steps):
        if data is None:
            batch = CHAIN.sample(rng, config.batch_size, MODEL.n_ctx)
        else:
            if len(order) < config.batch_size:
                order = rng.permutation(config.n_sequences)
            batch, order = data[order[: config.batch_size]], order[config.batch_size :]
        tokens = torch.from_numpy(batch)
        loss = next_token_loss(net(tokens), tokens)
        optimizer.zero_grad()
        loss.backward()
        if config.clip:
            torch.nn.utils.clip_grad_norm_(net.parameters(), config.clip)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    return net.state_dict(), np.array(losses, dtype=np.float32)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"dropout": 0.2, "n_sequences": 20},
        {"clip": 0.1, "weight_decay": 1.0, "decay": False},
    ],
)
def test_the_loop_is_the_plain_one_bit_for_bit(change):
    config = replace(SHORT, **change)
    run = train(CHAIN, MODEL, config, 2)
    state, loss = plain(config, 2)
    assert same(run.state, state)
    np.testing.assert_array_equal(run.loss, loss)
    if config.clip:  # it was small enough to matter
        assert not same(run.state, train(CHAIN, MODEL, replace(config, clip=0.0), 2).state)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("n_sequences", [0, 24])
def test_same_seed_gives_the_same_bits(dropout, n_sequences):
    config = replace(SHORT, dropout=dropout, n_sequences=n_sequences)
    torch.manual_seed(1)
    one = train(CHAIN, MODEL, config, seed=5)
    torch.manual_seed(2)
    two = train(CHAIN, MODEL, config, seed=5)
    assert same(one.state, two.state)
    np.testing.assert_array_equal(one.loss, two.loss)


def test_different_seeds_differ_in_weights_and_data():
    one, two = (train(CHAIN, MODEL, SHORT, seed) for seed in (0, 1))
    assert not same(one.state, two.state)
    first = [batches(SHORT, 12, seed)[0] for seed in (0, 1)]
    assert (first[0] != first[1]).any()


def test_training_moves_every_weight():
    before = SmallTransformer(MODEL, 0).state_dict()
    after = train(CHAIN, MODEL, SHORT, 0).state
    for name in before:
        assert not torch.equal(before[name], after[name]), name


def test_loss_falls_to_near_the_entropy_rate_and_not_below():
    config = TrainConfig(steps=200, batch_size=32, lr=1e-2)
    run = train(CHAIN, MODEL, config, 0)
    last = run.loss[-40:]
    error = last.std() / np.sqrt(len(last))
    assert run.loss[0] > np.log(4)
    assert CHAIN.entropy_rate - 4 * error < last.mean() < CHAIN.entropy_rate + 0.03


def test_a_hidden_source_trains_too():
    source = mess3(0.05, 0.85)
    run = train(source, replace(MODEL, d_vocab=3), replace(SHORT, steps=60, lr=1e-2), 0)
    assert run.loss[-10:].mean() < np.log(3) - 0.1


def test_loss_is_the_mean_cross_entropy_of_the_next_token():
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 5, 4, generator=draw)
    tokens = torch.randint(4, (2, 5), generator=draw)
    by_hand = -torch.stack(
        [logits[n, t].log_softmax(-1)[tokens[n, t + 1]] for n in range(2) for t in range(4)]
    ).mean()
    torch.testing.assert_close(next_token_loss(logits, tokens), by_hand)


def test_fresh_batches_never_repeat():
    config = replace(SHORT, steps=6, batch_size=8)
    rows = np.concatenate(batches(config, 32, 0))
    assert len(rows) == 48
    assert len(np.unique(rows, axis=0)) == 48


def test_an_epoch_of_a_fixed_set_sees_every_sequence_once():
    config = replace(SHORT, steps=12, batch_size=8, n_sequences=32)
    rows = np.concatenate(batches(config, 32, 0)).reshape(3, 32, 32)
    epochs = [np.unique(epoch, axis=0) for epoch in rows]
    assert all(len(epoch) == 32 for epoch in epochs)
    for epoch in epochs[1:]:
        np.testing.assert_array_equal(epoch, epochs[0])
    assert (rows[0] != rows[1]).any()  # in another order


def test_the_rest_of_an_epoch_that_fills_no_batch_is_left_out():
    config = replace(SHORT, steps=3, batch_size=8, n_sequences=20)
    got = batches(config, 32, 0)
    assert [len(batch) for batch in got] == [8, 8, 8]
    assert len(np.unique(np.concatenate(got[:2]), axis=0)) == 16


def test_kept_checkpoints_are_the_weights_of_that_step():
    config = replace(SHORT, decay=False, keep_at=(5, 12))
    run = train(CHAIN, MODEL, config, 0)
    assert set(run.kept) == {5, 12}
    assert same(run.kept[12], run.state)
    shorter = train(CHAIN, MODEL, replace(config, steps=5, keep_at=()), 0)
    assert same(run.kept[5], shorter.state)
    assert not same(run.kept[5], run.state)


def test_learning_rate_warms_up_and_falls_to_zero():
    config = TrainConfig(steps=100, warmup=10)
    factors = [config.lr_factor(step) for step in range(101)]
    np.testing.assert_allclose(factors[:10], np.arange(1, 11) / 10)
    assert factors[10] == 1
    assert factors[55] == pytest.approx(0.5)
    assert factors[100] == pytest.approx(0)
    assert (np.diff(factors[10:]) < 0).all()
    assert replace(config, decay=False).lr_factor(99) == 1


def test_a_floor_is_where_the_cosine_ends():
    config = TrainConfig(steps=100, warmup=10, floor=0.02)
    factors = [config.lr_factor(step) for step in range(101)]
    np.testing.assert_allclose(factors[:10], np.arange(1, 11) / 10)
    assert factors[10] == 1
    assert factors[55] == pytest.approx(0.51)  # half way from 1 to 0.02
    assert factors[100] == pytest.approx(0.02)


def test_divergence_names_seed_step_and_what_to_change():
    config = replace(SHORT, lr=1e30, warmup=0)
    with pytest.raises(FloatingPointError, match=r"seed 7 diverged at step [1-9] of 12; lower lr"):
        train(CHAIN, MODEL, config, 7)


def test_another_vocabulary_than_the_sources_is_named():
    with pytest.raises(ValueError, match="d_vocab = 5, but the source has 4 tokens"):
        train(CHAIN, replace(MODEL, d_vocab=5), SHORT, 0)


def test_fewer_sequences_than_a_batch_are_named():
    with pytest.raises(ValueError, match="n_sequences = 4 is less than one batch of 8"):
        train(CHAIN, MODEL, replace(SHORT, n_sequences=4), 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": 0}, "at least one step"),
        ({"batch_size": 0}, "at least one step and one sequence"),
        ({"lr": 0.0}, "lr must be above 0"),
        ({"lr": float("nan")}, "lr must be above 0"),
        ({"steps": 10, "keep_at": (0, 11)}, r"keep_at must lie in 1…10; got \[0, 11\]"),
        ({"eval_every": -1}, "eval_every must be 0 or more; got -1"),
        ({"stop_after": -2}, "stop_after must be 0 or more"),
        ({"keep_on": float("nan")}, "keep_on must be 0 or more"),
        ({"clip": -1.0}, "clip must be 0 or more"),
        ({"floor": 1.5}, "floor is a fraction of lr"),
        ({"floor": float("nan")}, "floor is a fraction of lr"),
        ({"stop_at": ("test_accuracy", 0.9)}, "set eval_every too"),
        ({"keep_on": 0.1}, "set eval_every too"),
        ({"eval_every": 5, "stop_after": 3}, "set stop_at too"),
    ],
)
def test_settings_out_of_range_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**settings)
