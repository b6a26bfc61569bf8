"""A run that was killed goes on and ends with the same bits, whatever the moment."""

import os
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from helpers.cache import CacheWarning
from helpers.runs import train_all
from helpers.training import AutogradLearner, TrainConfig, train
from helpers.training.resume import Damaged, Snapshots, alone, pack, unpack
from tests.killed import MODEL, MOMENTS, RUN, TASKS, Sometimes
from tests.toy import Toy, identical

SEED = 3
quick = settings(max_examples=40, deadline=None, derandomize=True)


@pytest.fixture(scope="module")
def killed(tmp_path_factory, root):
    """What killed trainings leave; see tests/killed.py."""
    folder = tmp_path_factory.mktemp("killed")
    subprocess.run([sys.executable, "-m", "tests.killed", folder], cwd=root, check=True)
    return folder


@pytest.fixture(scope="module")
def whole():
    """The same trainings without a kill."""
    return {
        name: train(task, model, config, SEED, progress=False)
        for name, (task, model, config) in TASKS.items()
    }


@pytest.fixture
def no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", CacheWarning)
        yield


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize(("moment", "number"), MOMENTS)
def test_a_killed_run_ends_with_the_same_bits(killed, whole, no_warning, name, moment, number):
    place = killed / f"{name}-{moment}-{number}"
    found = Snapshots(place / "key").read()
    last = int((place / "log").read_text().split()[-1])
    assert found is not None
    assert found[0]["journal"]["done"] == last > 0  # the last that was whole
    task, model, config = TASKS[name]
    resumed = train(task, model, config, SEED, snapshots=Snapshots(place / "key"), progress=False)
    assert identical(resumed, whole[name])


def test_the_uninterrupted_runs_have_something_to_lose(whole):
    assert set(whole["fresh"].kept) == set(whole["fixed"].kept) == {4, 9}
    assert whole["toy"].reached
    assert whole["toy"].stopped_at == 22
    assert len(whole["toy"].kept) >= 3
    assert len(whole["toy"].history["step"]) == 9
    assert {4, 9} < set(whole["addition"].kept)
    assert whole["addition"].loss[-1] < whole["addition"].loss[0]
    assert set(whole["dyck"].kept) == {4, 9}
    assert whole["dyck"].loss[-1] < whole["dyck"].loss[0]


def test_a_killed_call_goes_on_by_itself_and_tidies_up(killed, no_warning, monkeypatch):
    cache = killed / "runs" / "cache"
    monkeypatch.setenv("HELPERS_CACHE", str(cache))
    assert len(list((cache / ".snapshots").glob("*/now.safetensors"))) == 1
    steps, real = [], AutogradLearner.step

    def step(self, batch, lr):
        steps.append(lr)
        return real(self, batch, lr)

    monkeypatch.setattr(AutogradLearner, "step", step)
    (run,) = train_all([RUN], n_jobs=1)
    assert len(steps) == RUN.config.steps - 10  # killed in the 11th
    assert list((cache / ".snapshots").iterdir()) == []
    alone = train(RUN.source, RUN.model, RUN.config, RUN.seed, progress=False)
    assert identical(replace(run, final=None), replace(alone, final=None))
    train_all([RUN], n_jobs=1)
    assert len(steps) == 2 * RUN.config.steps - 10  # kept: nothing was trained for the last call


class Stopped(Exception):
    pass


def leave_snapshot(folder: Path, name: str, after: int) -> Snapshots:
    """Train as far as the snapshot after that many steps, and no further."""
    snapshots = Sometimes(folder)
    real = snapshots.write

    def write(values, kept):
        real(values, kept)
        if values["journal"]["done"] == after:
            raise Stopped

    snapshots.write = write
    task, model, config = TASKS[name]
    with pytest.raises(Stopped):
        train(task, model, config, SEED, snapshots=snapshots, progress=False)
    return Snapshots(folder)


def forget_nothing(position):
    pass


def forget_moments(position):
    for name in list(position["learner"]):
        if name.startswith(("exp_avg", "step")):
            del position["learner"][name]


def forget_first_moment(position):
    for name, value in position["learner"].items():
        if name.startswith("exp_avg/"):
            value.zero_()


def forget_optimizer_step(position):
    for name, value in position["learner"].items():
        if name.startswith("step/"):
            value.fill_(1)


def forget_order(position):
    position["stream"]["order"] = position["stream"]["order"][:0]


def forget_generator(position):
    position["stream"]["rng"] = np.random.default_rng([SEED, 1]).bit_generator.state


def forget_dropout(position):
    torch.manual_seed(SEED)
    position["rng"]["cpu"] = torch.get_rng_state()


@pytest.mark.parametrize(
    ("forget", "harmless"),
    [
        (forget_nothing, True),
        (forget_moments, False),
        (forget_first_moment, False),
        (forget_optimizer_step, False),
        (forget_order, False),
        (forget_generator, False),
        (forget_dropout, False),
    ],
)
def test_a_resume_that_forgets_something_is_another_run(tmp_path, whole, forget, harmless):
    snapshots = leave_snapshot(tmp_path / "key", "fixed", 9)
    values, kept = snapshots.read()
    forget(values["position"])
    snapshots.write(values, kept)
    task, model, config = TASKS["fixed"]
    resumed = train(task, model, config, SEED, snapshots=snapshots, progress=False)
    assert identical(resumed, whole["fixed"]) is harmless


@pytest.mark.parametrize("name", ["now.safetensors", "kept-4.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "foreign", "gone"])
def test_a_damaged_snapshot_is_named_and_begun_anew(tmp_path, whole, name, damage):
    snapshots = leave_snapshot(tmp_path / "key", "fixed", 9)
    path = tmp_path / "key" / name
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[-5] ^= 1
        path.write_bytes(content)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "foreign":
        leave_snapshot(tmp_path / "other", "fixed", 9)
        path.write_bytes((tmp_path / "other" / name).read_bytes())
    else:
        path.unlink()
    task, model, config = TASKS["fixed"]
    if (name, damage) == ("now.safetensors", "gone"):
        assert snapshots.read() is None  # as if there had been none
    else:
        with pytest.warns(CacheWarning, match="key is damaged .* begins anew"):
            assert snapshots.read() is None
    assert identical(
        train(task, model, config, SEED, snapshots=snapshots, progress=False), whole["fixed"]
    )


@quick
@given(
    arrays.arrays(
        st.sampled_from([np.float32, np.int64, np.uint8, np.float64]),
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0),
    ),
    st.integers(min_value=-(2**130), max_value=2**130),
    st.text(max_size=5),
)
def test_packed_values_come_back_exactly(array, number, text):
    tensor = torch.from_numpy(array.copy())
    values = {"a": array, "n": number, "deep": {"t": tensor, "s": text, "none": None}}
    back = unpack("key", pack("key", values))
    assert back["a"].dtype == array.dtype
    np.testing.assert_array_equal(back["a"], array)
    assert back["n"] == number
    assert back["deep"]["s"] == text
    assert back["deep"]["none"] is None
    np.testing.assert_array_equal(back["deep"]["t"].numpy(), array)


@quick
@given(st.data())
def test_no_flipped_bit_goes_unnoticed(data):
    values = {"a": np.arange(6.0), "n": 2**100, "t": torch.ones(3)}
    content = bytearray(pack("key", values))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    with pytest.raises(Damaged):
        unpack("key", bytes(content))


def test_where_no_snapshot_can_be_written_the_training_goes_on(tmp_path, whole):
    (tmp_path / "file").write_text("in the way")
    snapshots = Snapshots(tmp_path / "file" / "key", seconds=0.0)
    task, model, config = TASKS["fixed"]
    with pytest.warns(CacheWarning, match="a snapshot of this training cannot be written") as told:
        run = train(task, model, config, SEED, snapshots=snapshots, progress=False)
    assert len(told) == 1
    assert identical(run, whole["fixed"])


def test_two_processes_on_one_run_do_each_other_no_harm(tmp_path, whole, no_warning):
    """Both write snapshots at the same place, and one removes them while the other goes on."""
    task, model, config = TASKS["toy"]
    one, two = Sometimes(tmp_path / "key"), Sometimes(tmp_path / "key")
    real, inner = two.write, []

    def write(values, kept):
        if values["journal"]["done"] == 9:  # the other one comes in, and ends first
            with torch.random.fork_rng():
                inner.append(train(task, model, config, SEED, snapshots=one, progress=False))
            one.remove()
        else:
            real(values, kept)

    two.write = write
    state = train(task, model, config, SEED, snapshots=two, progress=False)
    assert identical(inner[0], whole["toy"])
    found = Snapshots(tmp_path / "key").read()
    assert found is not None
    assert found[0]["journal"]["done"] > 9
    assert set(found[1]) <= set(state.kept)
    resumed = train(task, model, config, SEED, snapshots=one, progress=False)
    assert identical(resumed, whole["toy"])


def test_what_was_given_up_long_ago_is_removed_and_nothing_else(tmp_path):
    for name, days in (("old", 70), ("recent", 50), ("mine", 70)):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (0, tmp_path.stat().st_mtime - 86_400 * days))
    Snapshots(tmp_path / "mine").remove()
    assert [path.name for path in tmp_path.iterdir()] == ["recent"]


def test_a_lock_lets_one_in_at_a_time(tmp_path):
    lock, seen = tmp_path / "deep" / "lock", []
    busy = threading.Semaphore(1)

    def enter():
        for _ in range(20):
            with alone(lock):
                free = busy.acquire(blocking=False)
                time.sleep(0.001)  # so that the others come meanwhile
                seen.append((free, lock.exists()))  # whoever comes next must find the same file
                if free:
                    busy.release()

    threads = [threading.Thread(target=enter) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [(True, True)] * 80
    assert list((tmp_path / "deep").iterdir()) == []


def test_where_no_lock_can_be_had_nobody_waits(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with alone(tmp_path / "file" / "lock"):
        pass


def test_snapshots_come_after_their_time_and_not_before(tmp_path, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("helpers.training.resume.time.monotonic", lambda: clock[0])
    snapshots = Snapshots(tmp_path / "key")
    written = []

    class Slow(Toy):
        def learner(self, model, config, seed):
            learner = super().learner(model, config, seed)
            step = learner.step

            def slow(batch, lr):
                clock[0] += 7  # seconds
                return step(batch, lr)

            learner.step = slow
            return learner

    snapshots.write = lambda values, kept: (
        written.append(values["journal"]["done"]),
        setattr(snapshots, "_last", clock[0]),
    )
    train(Slow(), MODEL, TrainConfig(10, 4), 0, snapshots=snapshots, progress=False)
    assert written == [3, 6, 9]  # 21 seconds apart
