"""Many runs: the same as one by one, in the order asked for, and nothing computed twice."""

import json
import threading
from dataclasses import replace

import numpy as np
import pytest
import torch

from helpers import kept_runs
from helpers import runs as runs_module
from helpers.models import ModelConfig
from helpers.runs import Run, train_all, train_groups
from helpers.tasks.addition import ModularAddition
from helpers.tasks.markov import cyclic
from helpers.training import TrainConfig, train
from tests.toy import Toy, from_spec, identical

CHAIN = cyclic()
MODEL = ModelConfig(d_vocab=4, n_ctx=12, d_model=16, n_heads=2, d_mlp=32)
SHORT = TrainConfig(steps=12, batch_size=8, lr=1e-2, warmup=3)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    """A cache of this test's own, for work in this process."""
    monkeypatch.setenv("HELPERS_CACHE", str(tmp_path))
    return tmp_path


def same(one, two) -> bool:
    return one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


def test_parallel_equals_serial_bit_for_bit_and_keeps_the_order():
    config = replace(SHORT, dropout=0.1, keep_at=(6,))
    seeds = [3, 0, 2, 1]
    together = train_all([Run(CHAIN, MODEL, config, s) for s in seeds], n_jobs=2)
    assert [run.seed for run in together] == seeds
    for run in together:
        alone = train(CHAIN, MODEL, config, run.seed)
        assert same(run.state, alone.state)
        assert same(run.kept[6], alone.kept[6])
        np.testing.assert_array_equal(run.loss, alone.loss)


def test_a_second_call_trains_nothing_and_returns_the_same(empty_cache, monkeypatch):
    seeds, counted = [], train

    def counting(source, model, config, seed, **how):
        seeds.append(seed)
        return counted(source, model, config, seed, **how)

    monkeypatch.setattr(kept_runs, "train", counting)
    runs = [Run(CHAIN, MODEL, SHORT, seed) for seed in (0, 1)]
    first = train_all(runs, n_jobs=1)
    assert seeds == [0, 1]
    second = train_all(runs, n_jobs=1)
    assert seeds == [0, 1]
    assert all(same(a.state, b.state) for a, b in zip(first, second, strict=True))
    np.testing.assert_array_equal(first[0].loss, second[0].loss)
    train_all([*runs, Run(CHAIN, MODEL, replace(SHORT, lr=2e-2), 0)], n_jobs=1)
    assert seeds == [0, 1, 0]  # another recipe is another result


def test_an_interrupted_call_keeps_what_is_done(empty_cache, monkeypatch):
    seeds, counted = [], train

    def failing(source, model, config, seed, **how):
        if seed == 1 and 1 not in seeds:
            seeds.append(seed)
            raise KeyboardInterrupt
        seeds.append(seed)
        return counted(source, model, config, seed, **how)

    monkeypatch.setattr(kept_runs, "train", failing)
    runs = [Run(CHAIN, MODEL, SHORT, seed) for seed in (0, 1)]
    with pytest.raises(KeyboardInterrupt):
        train_all(runs, n_jobs=1)
    train_all(runs, n_jobs=1)
    assert seeds == [0, 1, 1]  # seed 0 was not trained again


@pytest.fixture
def toy_kind(empty_cache, monkeypatch):
    """The toy task among the kinds that the cache knows, in this process."""
    monkeypatch.setitem(kept_runs.KINDS, "toy", kept_runs.Kind(from_spec))


@pytest.fixture
def trained_seeds(monkeypatch):
    """Recipes in the order in which they are trained."""
    started, counted = [], train

    def counting(source, model, config, seed, **how):
        started.append((seed, config))
        return counted(source, model, config, seed, **how)

    monkeypatch.setattr(kept_runs, "train", counting)
    return started


WATCHED = TrainConfig(
    40, 4, eval_every=4, stop_at=("test_accuracy", 1.0), stop_after=3, keep_on=0.4
)


def test_everything_about_a_run_comes_back_from_the_cache(toy_kind, trained_seeds):
    run = Run(Toy(grok=12), MODEL, WATCHED, 5)
    first, second = train_all([run], n_jobs=1)[0], train_all([run], n_jobs=1)[0]
    assert len(trained_seeds) == 1
    alone = replace(train(Toy(grok=12), MODEL, WATCHED, 5), final=None)
    assert identical(first, alone)
    assert identical(second, alone)
    assert (second.stopped_at, second.reached) == (15, True)
    assert list(second.kept) == [0, 4, 8, 12]


def test_branches_go_on_from_a_parent_that_is_trained_once(toy_kind, trained_seeds):
    parent = Run(Toy(grok=12), MODEL, WATCHED, 5)
    decays = (0.0, 1.0, 3.0)
    branch = TrainConfig(8, 4, eval_every=4)
    found = train_all(
        [Run(Toy(grok=12), MODEL, replace(branch, lr=1e-3 + d), 5, parent) for d in decays],
        n_jobs=1,
    )
    assert [config for _, config in trained_seeds].count(WATCHED) == 1
    assert len(trained_seeds) == 4
    end = train(Toy(grok=12), MODEL, WATCHED, 5).final
    for d, run in zip(decays, found, strict=True):
        assert (run.start, run.stopped_at) == (15, 23)
        by_hand = train(Toy(grok=12), MODEL, replace(branch, lr=1e-3 + d), 5, start=end)
        assert identical(run, replace(by_hand, final=None))
    train_all([parent], n_jobs=1)
    assert len(trained_seeds) == 4


def test_a_branch_of_a_branch_counts_on(toy_kind):
    short = TrainConfig(5, 4, warmup=0, decay=False)
    one = Run(Toy(), MODEL, short, 0)
    three = Run(Toy(), MODEL, short, 0, Run(Toy(), MODEL, short, 0, one))
    (run,) = train_all([three], n_jobs=1)
    assert (run.start, run.stopped_at) == (10, 15)
    assert same(run.state, train(Toy(), MODEL, replace(short, steps=15), 0).state)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "keeps its parent's seed: 0, and not 1"),
        ({"source": Toy(grok=7)}, "keeps its parent's task: .*20.*, and not .*7"),
        ({"model": replace(MODEL, d_model=8)}, "keeps its parent's model"),
        ({"config": replace(SHORT, n_sequences=9)}, "parent's n_sequences: 0, and not 9"),
    ],
)
def test_a_parent_that_does_not_fit_is_named(toy_kind, change, message):
    parent = Run(Toy(), MODEL, SHORT, 0)
    with pytest.raises(ValueError, match=message):
        replace(parent, parent=parent, **change)


def test_an_unknown_kind_of_task_is_named():
    with pytest.raises(ValueError, match="unknown kind of task 'toy'; known: chain, hmm, addition"):
        Run(Toy(), MODEL, SHORT, 0)


def test_who_comes_while_a_run_is_trained_waits_for_it(empty_cache, monkeypatch):
    """Another thread stands for another process: each opens the lock for itself."""
    entered, counted, results = [], train, []
    second = threading.Thread(target=lambda: results.extend(train_all([run], n_jobs=1)))
    run = Run(CHAIN, MODEL, SHORT, 0)

    def slow(*args, **how):
        entered.append(1)
        if len(entered) == 1:
            second.start()
        return counted(*args, **how)

    monkeypatch.setattr(kept_runs, "train", slow)
    results.extend(train_all([run], n_jobs=1))
    second.join()
    assert entered == [1]
    assert same(results[0].state, results[1].state)


def test_a_run_that_diverges_leaves_no_snapshot(empty_cache, monkeypatch):
    monkeypatch.setattr("helpers.training.resume.SNAPSHOT_SECONDS", 0.0)
    with pytest.raises(FloatingPointError, match="seed 7 diverged"):
        train_all([Run(CHAIN, MODEL, replace(SHORT, lr=1e4, warmup=5, steps=40), 7)], n_jobs=1)
    assert list((empty_cache / ".snapshots").iterdir()) == []


def test_modular_addition_is_a_kind_that_the_cache_knows(empty_cache):
    task, model = ModularAddition(7, n_modes=2), replace(MODEL, d_vocab=7, n_ctx=2)
    config = TrainConfig(10, 8, eval_every=5)
    parent = Run(task, model, config, 0)
    branch = Run(task, model, replace(config, weight_decay=3.0), 0, parent)
    found = train_all([branch, parent], n_jobs=1)
    end = train(task, model, config, 0)
    assert identical(found[1], replace(end, final=None))
    alone = train(task, model, branch.config, 0, start=end.final)
    assert identical(found[0], replace(alone, final=None))


def test_cores_follow_the_books_runner(monkeypatch):
    monkeypatch.setenv("BOOK_CORES", "3")
    assert runs_module.available_cores() == 3
    monkeypatch.delenv("BOOK_CORES")
    assert runs_module.available_cores() >= 1


def test_thread_count_is_as_before_after_a_run(empty_cache):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        train_all([Run(CHAIN, MODEL, SHORT, 0)], n_jobs=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_groups_come_back_under_their_names():
    groups = {
        "short": [Run(CHAIN, MODEL, SHORT, seed) for seed in (4, 5)],
        "none": [],
        "long": [Run(CHAIN, MODEL, replace(SHORT, steps=20), 6)],
    }
    done = train_groups(groups, n_jobs=1)
    assert {name: [run.seed for run in found] for name in groups for found in [done[name]]} == {
        "short": [4, 5],
        "none": [],
        "long": [6],
    }
    assert [len(run.loss) for run in done["short"] + done["long"]] == [12, 12, 20]


def test_a_group_waits_for_itself_and_not_for_later_ones(empty_cache, monkeypatch):
    started, counted = [], train

    def counting(source, model, config, seed, **how):
        started.append(seed)
        return counted(source, model, config, seed, **how)

    monkeypatch.setattr(kept_runs, "train", counting)
    one, two = ([Run(CHAIN, MODEL, SHORT, seed) for seed in seeds] for seeds in ((0, 1), (2, 3)))
    groups = train_groups({"first": one, "second": two}, n_jobs=1)
    assert [run.seed for run in groups["first"]] == [0, 1]
    assert not {2, 3} <= set(started)  # the second group is not done yet
    assert [run.seed for run in groups["second"]] == [2, 3]
    assert groups["first"][0] is groups["first"][0]  # nothing is asked for twice
    assert started == [0, 1, 2, 3]


def test_a_later_group_may_be_asked_for_first_and_branches_may_come_before_their_parent():
    """Both workers want the parent at once: one trains it, the other waits for it."""
    config = replace(SHORT, dropout=0.1, n_sequences=20, steps=25, decay=False)
    parent = Run(CHAIN, MODEL, config, 31)
    children = [
        Run(CHAIN, MODEL, replace(config, weight_decay=decay), 31, parent) for decay in (0.0, 3.0)
    ]
    groups = train_groups({"branches": children, "parent": [parent]}, n_jobs=2)
    end = train(CHAIN, MODEL, config, 31)
    assert identical(groups["parent"][0], replace(end, final=None))
    for child, run in zip(children, groups["branches"], strict=True):
        alone = train(CHAIN, MODEL, child.config, 31, start=end.final)
        assert identical(run, replace(alone, final=None))
    assert not same(*(run.state for run in groups["branches"]))


def test_an_unknown_group_is_named_with_the_known_ones():
    groups = train_groups({"a": [Run(CHAIN, MODEL, SHORT, 0)]}, n_jobs=1)
    with pytest.raises(KeyError, match="no group 'z'; there are 'a'"):
        groups["z"]
    assert len(groups["a"]) == 1


def test_a_failing_run_says_what_failed(empty_cache):
    with pytest.raises(FloatingPointError, match="seed 7 diverged"):
        train_all([Run(CHAIN, MODEL, replace(SHORT, lr=1e30), 7)], n_jobs=1)


def test_after_an_error_no_group_is_handed_out_under_anothers_name(empty_cache):
    bad = Run(CHAIN, MODEL, replace(SHORT, lr=1e30), 7)
    good = {name: [Run(CHAIN, MODEL, SHORT, seed)] for name, seed in (("a", 0), ("c", 2))}
    groups = train_groups({"a": good["a"], "b": [bad], "c": good["c"]}, n_jobs=1)
    assert [run.seed for run in groups["a"]] == [0]
    with pytest.raises(FloatingPointError, match="seed 7 diverged"):
        groups["b"]
    for name in ("b", "c"):
        with pytest.raises(RuntimeError, match=f"group '{name}' was not trained: .* Start them"):
            groups[name]
    assert [run.seed for run in groups["a"]] == [0]


def test_an_interruption_between_two_results_shifts_nothing(empty_cache, monkeypatch):
    runs = {name: [Run(CHAIN, MODEL, SHORT, s) for s in (0, 1)] for name in ("a", "b")}
    groups = train_groups(runs, n_jobs=1)
    results, asked = groups._results, []

    class Interrupted:
        def __next__(self):
            asked.append(1)
            if len(asked) == 2:
                raise KeyboardInterrupt
            return next(results)

    monkeypatch.setattr(groups, "_results", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        groups["a"]
    with pytest.raises(RuntimeError, match="group 'a' was not trained"):
        groups["a"]


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8])
def test_a_seed_of_numpy_is_the_same_seed(empty_cache, unchecked, kind):
    run = Run(CHAIN, MODEL, SHORT, kind(3))
    assert type(run.seed) is int
    (one,) = train_all([run], n_jobs=1)
    (two,) = train_all([Run(CHAIN, MODEL, SHORT, 3)], n_jobs=1)
    assert same(one.state, two.state)
    assert len(list((empty_cache / "helpers.kept_runs._train").iterdir())) == 1


def test_a_seed_below_0_is_named():
    with pytest.raises(ValueError, match="whole number from 0 on; got -1"):
        Run(CHAIN, MODEL, SHORT, -1)


@pytest.mark.parametrize(
    ("source", "own"),
    [
        (CHAIN, {"helpers.tasks.markov", "helpers.tasks.hmm"}),
        (ModularAddition(7), {"helpers.tasks.addition", "helpers.fast"}),
    ],
)
def test_the_code_that_trains_a_run_is_in_its_key(empty_cache, source, own):
    model = replace(MODEL, d_vocab=7, n_ctx=2) if source is not CHAIN else MODEL
    train_all([Run(source, model, replace(SHORT, steps=1), 0)], n_jobs=1)
    (manifest,) = empty_cache.glob("*/*/manifest.json")
    inputs = json.loads(manifest.read_text())["body"]["inputs"]
    common = {"helpers.kept_runs", "helpers.training", "helpers.models", "helpers.tasks.streams"}
    assert set(inputs["code"]) == common | own
    assert set(inputs["packages"]) == {"torch", "numpy", "numba"}
