"""The benchmark of agreement compares one function on both sides, and its check can fail."""

import copy

import numpy as np
import pytest
import torch

from benchmarks import agreement
from helpers.cores import Core
from helpers.last_token import Outputs


@pytest.fixture(scope="module")
def model():
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(
        vocab_size=40,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=32,
        attn_implementation="eager",
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        made = GPTNeoXForCausalLM(config)
        for parameter in made.parameters():
            parameter.data += 0.1 * torch.randn_like(parameter)
    return made.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def prompts():
    rng = np.random.default_rng(0)
    return [rng.integers(0, 40, length).tolist() for length in (3, 6, 4, 6, 3, 5)]


@pytest.fixture(scope="module")
def record(model, prompts):
    products = agreement.products
    agreement.products = lambda: torch.randn(64, 64) @ torch.randn(64, 64)
    try:
        return agreement.measure(model, prompts, Outputs([[1, 2]], [[3, 4]]))
    finally:
        agreement.products = products


def test_both_sides_compute_one_function(record):
    assert set(record["difference"]) == {"resid", "jacobian", "margins", "axes", "sweep"}
    assert max(record["difference"].values()) <= 1e-4
    assert record["layers"] == 3 and record["prompts"] == 6


def test_padding_changes_nothing_on_the_plain_side(model, prompts):
    outputs = Outputs([[1, 2], [5]], [[3, 4], [6]])
    together = agreement.Plain(model, prompts, outputs).extract()
    for i, row in enumerate(prompts):
        alone = agreement.Plain(model, [row], outputs).extract()
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a[i], b[0], atol=1e-5)


def test_the_plain_sides_modes_are_ordered_as_ours(model, prompts):
    plain = agreement.Plain(model, prompts, Outputs([1], [3]))
    core = Core(np.eye(16)[:, :2], np.ones(16), np.ones(2))
    swept = plain.sweep([core] * 3)
    assert swept.shape == (6, 9, 1)
    np.testing.assert_array_equal(swept[:, 5], plain.intervene(1, core, "flip"))
    assert [(e.layer, e.mode) for e in agreement.edits_of([core] * 3)][5] == (1, "flip")


def test_the_check_fails_below_the_goal_or_where_results_differ(record):
    def changed(gain, gap=0.0):
        new = copy.deepcopy(record)
        new["ratio"]["cpu"] = gain
        new["difference"]["sweep"] = gap
        return agreement.shortfalls(new)

    assert changed(15.0) == []
    assert "below 15" in changed(14.9)[0]
    assert "below 15" in changed(float("nan"))[0]
    assert "sweep differ" in changed(20.0, 2e-4)[0]
    assert "sweep differ" in changed(20.0, float("nan"))[0]


def test_the_table_names_both_sides_and_the_gain(record):
    text = agreement.table(record)
    for word in ("plain", "ours", "gain", "GFLOP/s", "largest differences"):
        assert word in text


def test_prompts_differ_from_one_another_and_do_not_change():
    some = agreement.prompts(120)
    assert len(set(some)) == 120
    assert some == agreement.prompts(120)


@pytest.mark.parametrize("n", ["1", "0"])
def test_impossible_sizes_are_refused(n):
    with pytest.raises(SystemExit):
        agreement.main(["--prompts", n])
