"""The benchmark of chapter 4's parts times what it names, a piece at a time."""

import json

import numpy as np
import pytest

from benchmarks import __main__, rotation


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    path = tmp_path_factory.mktemp("bench") / "rotation.json"
    code = rotation.main(["--repeats", "1", "--steps", "2", "--output", str(path)])
    return code, json.loads(path.read_text())


def test_every_part_has_a_cost_by_both_clocks(small_run):
    code, record = small_run
    assert code == 0
    assert set(record["cost"]) == set(rotation.works(2))
    for clocks in record["cost"].values():
        assert len(clocks["wall"]) == len(clocks["cpu"]) == 1
        assert min(clocks["wall"]) > 0
    assert all(name in rotation.table(record) for name in record["cost"])


def test_a_cost_is_that_of_one_piece(monkeypatch):
    calls = []
    monkeypatch.setattr(rotation, "works", lambda steps: {"four": (4, calls.append)})
    monkeypatch.setattr(rotation, "timed", lambda work: work() or {"wall": 8.0, "cpu": 6.0})
    record = rotation.measure(2, 1)
    assert record["cost"]["four"] == {"wall": [2.0, 2.0], "cpu": [1.5, 1.5]}
    assert calls == [0, 1, 2]  # the first warms up; later ones differ, so that nothing is found


def test_made_up_activations_have_the_spectrum_that_is_said():
    X = rotation.activations(np.random.default_rng(0), rows=20_000)
    found = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) / np.sqrt(len(X))
    np.testing.assert_allclose(found[:10], 1.4 ** -np.arange(10), rtol=0.05)


@pytest.mark.parametrize("arguments", [["--repeats", "0"], ["--steps", "0"]])
def test_impossible_sizes_are_refused(arguments):
    with pytest.raises(SystemExit):
        rotation.main(arguments)


def test_it_has_a_name():
    assert __main__.NAMED["rotation"] is rotation.main
