"""The loop: evaluations, early stops, kept weights, branches, and what each part hands on."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.models import ModelConfig
from helpers.tasks.markov import cyclic
from helpers.tasks.streams import Shuffled
from helpers.training import (
    AutogradLearner,
    Learner,
    NextToken,
    Stream,
    Task,
    TrainConfig,
    train,
)
from tests.toy import Toy, identical, same

CHAIN = cyclic()
MODEL = ModelConfig(d_vocab=4, n_ctx=12, d_model=16, n_heads=2, d_mlp=32)
SHORT = TrainConfig(steps=12, batch_size=8, lr=1e-2, warmup=3)
quick = settings(max_examples=40, deadline=None, derandomize=True)


TOY = TrainConfig(steps=40, batch_size=4, eval_every=4, decay=False)
STOP = replace(TOY, stop_at=("test_accuracy", 1.0))


def test_the_pieces_are_what_the_loop_asks_for():
    for task in (Toy(), NextToken(CHAIN)):
        assert isinstance(task, Task)
        assert isinstance(task.learner(MODEL, SHORT, 0), Learner)
        assert isinstance(task.batches(MODEL, replace(SHORT, batch_size=4), 0), Stream)


def test_evaluations_come_before_the_first_step_and_after_the_last():
    run = train(Toy(grok=20), MODEL, replace(TOY, steps=22), 0)
    assert run.history["step"].tolist() == [0, 4, 8, 12, 16, 20, 22]
    assert run.history["train_accuracy"].tolist() == [0, 0.4, 0.8, 1, 1, 1, 1]
    assert run.history["test_accuracy"].tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert (run.start, run.stopped_at, run.reached) == (0, 22, False)
    assert len(run.loss) == 22


def test_without_evaluations_there_is_no_history():
    assert train(Toy(), MODEL, replace(TOY, eval_every=0), 0).history["step"].tolist() == []
    run = train(CHAIN, MODEL, replace(SHORT, eval_every=5), 0)
    assert {name: values.tolist() for name, values in run.history.items()} == {
        "step": [0, 5, 10, 12]
    }


def test_evaluations_change_nothing():
    one, two = (train(Toy(), MODEL, replace(TOY, eval_every=n), 0) for n in (0, 3))
    assert same(one.state, two.state)


@pytest.mark.parametrize(
    ("grok", "after", "end", "reached"),
    [
        (20, 0, 20, True),
        (18, 0, 20, True),  # noticed at the next evaluation
        (18, 7, 27, True),
        (18, 100, 40, True),  # no further than `steps`
        (0, 0, 0, True),
        (41, 7, 40, False),
    ],
)
def test_a_run_stops_where_it_was_told_to(grok, after, end, reached):
    run = train(Toy(grok), MODEL, replace(STOP, stop_after=after), 0)
    assert (run.stopped_at, run.reached) == (end, reached)
    assert len(run.loss) == end
    assert run.history["step"][-1] == end
    assert list(run.kept) == ([grok + -grok % 4] if reached else [])
    whole = train(Toy(grok), MODEL, replace(TOY, steps=max(end, 1)), 0)
    if end:
        assert same(run.state, whole.state)


def test_weights_are_kept_where_an_accuracy_moved():
    run = train(Toy(grok=30), MODEL, replace(TOY, eval_every=1, keep_on=0.25), 0)
    assert list(run.kept) == [0, 3, 6, 9, 30]  # train accuracy 0, .3, .6, .9, then test accuracy
    until = train(Toy(), MODEL, replace(TOY, steps=6), 0)
    assert same(run.kept[6], until.state)
    rarely = train(Toy(grok=30), MODEL, replace(TOY, eval_every=8, keep_on=0.25), 0)
    assert list(rarely.kept) == [0, 8, 32]


def test_small_steps_add_up_until_weights_are_kept():
    """From the last kept ones, and not from the last evaluation."""
    run = train(Toy(grok=99), MODEL, replace(TOY, eval_every=2, keep_on=0.35), 0)
    assert list(run.kept) == [0, 4, 8]


def test_keeping_on_a_schedule_and_on_change_go_together():
    config = replace(TOY, keep_on=0.5, keep_at=(3, 8))
    assert sorted(train(Toy(grok=99), MODEL, config, 0).kept) == [0, 3, 8]


@pytest.mark.parametrize(
    ("source", "change", "message"),
    [
        (Toy(), {"stop_at": ("loss", 0.1)}, "watches loss, but this task evaluates train_acc"),
        (CHAIN, {"stop_at": ("test_accuracy", 1.0)}, "test_accuracy, but .* evaluates nothing"),
        (CHAIN, {"keep_on": 0.1}, "watches an accuracy, but this task evaluates nothing"),
    ],
)
def test_a_metric_that_is_not_there_is_named(source, change, message):
    with pytest.raises(ValueError, match=message):
        train(source, MODEL, replace(TOY, **change), 0)


@pytest.mark.parametrize("task", [CHAIN, Toy()])
@pytest.mark.parametrize("n_sequences", [0, 20])
def test_two_runs_after_one_another_are_one(task, n_sequences):
    config = TrainConfig(
        steps=20, batch_size=8, lr=1e-2, warmup=0, decay=False, dropout=0.1, n_sequences=n_sequences
    )
    whole = train(task, MODEL, config, 4)
    first = train(task, MODEL, replace(config, steps=9), 4)
    second = train(task, MODEL, replace(config, steps=11, keep_at=(2,)), 4, start=first.final)
    assert same(whole.state, second.state)
    np.testing.assert_array_equal(np.r_[first.loss, second.loss], whole.loss)
    assert (second.start, second.stopped_at) == (9, 20)
    assert list(second.kept) == [11]
    again = train(task, MODEL, replace(config, steps=11), 4, start=first.final)
    assert same(again.state, second.state)  # the first run's end was left as it was


def test_a_branch_counts_on_and_takes_its_own_recipe():
    first = train(Toy(grok=8), MODEL, STOP, 0)
    assert first.stopped_at == 8
    branch = train(Toy(grok=8), MODEL, replace(TOY, steps=8, lr=1e-4), 0, start=first.final)
    assert branch.history["step"].tolist() == [8, 12, 16]
    assert branch.stopped_at == 16
    same_recipe = train(Toy(grok=8), MODEL, replace(TOY, steps=8), 0, start=first.final)
    assert not same(branch.state, same_recipe.state)


def test_divergence_of_any_learner_is_noticed():
    class Diverging(Toy):
        def learner(self, model, config, seed):
            learner = super().learner(model, config, seed)
            step = learner.step
            learner.step = lambda batch, lr: step(batch, lr) / (learner.steps != 9)
            return learner

    for eval_every in (0, 4):
        with pytest.raises(FloatingPointError, match="seed 1 diverged at step 8 of 40"):
            train(Diverging(), MODEL, replace(TOY, eval_every=eval_every), 1)


@quick
@given(st.integers(1, 30), st.data())
def test_a_shuffled_stream_is_taken_up_where_it_was_left(n, data):
    batch = data.draw(st.integers(1, n))
    skip, more = data.draw(st.integers(0, 12)), data.draw(st.integers(1, 12))
    stream = Shuffled(n, batch, np.random.default_rng(7))
    for _ in range(skip):
        next(stream)
    place = stream.state()
    ahead = [next(stream) for _ in range(more)]
    other = Shuffled(n, batch, np.random.default_rng(8))
    other.load(place)
    np.testing.assert_array_equal(ahead, [next(other) for _ in range(more)])
    other.load(place)  # and using it has not changed it
    np.testing.assert_array_equal(ahead[0], next(other))


def test_a_stream_of_another_size_is_refused():
    with pytest.raises(ValueError, match="5 rows do not fill one batch of 6"):
        Shuffled(5, 6, np.random.default_rng(0))
    long = Shuffled(50, 5, np.random.default_rng(0))
    next(long)
    with pytest.raises(ValueError, match="more than 10 rows"):
        Shuffled(10, 5, np.random.default_rng(0)).load(long.state())


def test_a_learner_by_autograd_is_all_in_its_state():
    task = NextToken(CHAIN)
    batches_ = [CHAIN.sample(np.random.default_rng(i), 8, 12) for i in range(6)]
    one, two = task.learner(MODEL, SHORT, 0), task.learner(MODEL, SHORT, 1)
    two.load(one.state())  # before the first step there are no moments
    for batch in batches_[:3]:
        one.step(batch, 1e-2)
    state = one.state()
    for batch in batches_[3:]:
        one.step(batch, 1e-2)
    two.load(state)
    for batch in batches_[3:]:
        two.step(batch, 1e-2)
    assert same(one.state(), two.state())
    assert same(one.weights(), one.net.state_dict())
    one.weights()["head.weight"].zero_()  # a copy
    assert one.net.head.weight.any()
    assert isinstance(one, AutogradLearner)


def test_the_bar_shows_loss_and_accuracies(capsys, monkeypatch):
    train(Toy(grok=8), MODEL, TOY, 3)
    said = capsys.readouterr().err
    assert "seed 3" in said
    assert "40/40" in said
    assert "train 1.000, test 1.000" in said
    assert "loss " in said
    train(Toy(), MODEL, TOY, 3, progress=False)
    monkeypatch.setenv("BOOK_RECORDS", "somewhere")
    train(Toy(), MODEL, TOY, 3)
    assert capsys.readouterr() == ("", "")


def test_toy_runs_can_differ():
    """The comparison that other tests rely on sees a difference in any part."""
    run = train(Toy(), MODEL, TOY, 0)
    assert identical(run, train(Toy(), MODEL, TOY, 0))
    for change in ({"reached": True}, {"loss": run.loss + 1}, {"kept": {1: run.state}}):
        assert not identical(run, replace(run, **change))
    moved = replace(run.final, learner={**run.final.learner, "v": torch.zeros(3)})
    assert not identical(run, replace(run, final=moved))


@pytest.mark.parametrize("eval_every", [0, 1000])
def test_a_run_that_diverged_is_not_trained_to_its_end(eval_every):
    steps = []

    class Diverging(Toy):
        def learner(self, model, config, seed):
            learner = super().learner(model, config, seed)
            step = learner.step
            learner.step = lambda batch, lr: (steps.append(1), step(batch, lr) * float("nan"))[1]
            return learner

    with pytest.raises(FloatingPointError, match="diverged at step 0 of 900"):
        train(Diverging(), MODEL, replace(TOY, steps=900, eval_every=eval_every), 1)
    assert len(steps) <= 60


def test_a_move_of_just_that_much_is_enough_and_only_accuracies_count():
    class Halves(Toy):
        def evaluate(self, learner):
            return {"test_accuracy": learner.steps // 6 / 2, "norm": 7.0 * learner.steps}

    run = train(Halves(), MODEL, replace(TOY, steps=12, eval_every=1, keep_on=0.5), 0)
    assert list(run.kept) == [0, 6, 12]


def test_a_branch_that_diverges_names_the_step_from_the_very_first_on():
    first = train(CHAIN, MODEL, SHORT, 7)
    branch = replace(SHORT, lr=1e30, warmup=0)
    with pytest.raises(FloatingPointError, match=r"seed 7 diverged at step 1[3-9] of 24; lower lr"):
        train(CHAIN, MODEL, branch, 7, start=first.final)
