"""The last-token path against the plain way: one padded batch, hooks, whole forward passes."""

import functools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.agreement import Plain, cores_of, edits_of
from helpers.cores import ace
from helpers.interventions import project
from helpers.last_token import (
    Intervention,
    Outputs,
    continue_from,
    edited,
    extract,
    full_extract,
    full_sweep,
    prepare,
    sweep,
)
from helpers.last_token.decoder import take_apart
from helpers.last_token.replay import row_mask

quick = settings(max_examples=40, deadline=None, derandomize=True)
D, VOCAB, LAYERS, WINDOW = 32, 50, 3, 4  # the window is shorter than the longer prompts
OUTPUTS = Outputs([[3, 4], [5], [6]], [[7, 8], [9], [10]])
SMALL = dict(
    vocab_size=VOCAB,
    hidden_size=D,
    num_hidden_layers=LAYERS,
    num_attention_heads=4,
    num_key_value_heads=2,
    intermediate_size=48,
    head_dim=8,
)
WINDOWED = dict(SMALL, sliding_window=WINDOW, layer_types=None)
ARCHITECTURES = {
    "gpt2": dict(vocab_size=VOCAB, n_embd=D, n_layer=LAYERS, n_head=4, n_positions=32),
    "llama": SMALL,
    "qwen2": SMALL,
    "mistral": dict(SMALL, sliding_window=WINDOW),
    "gemma2": dict(WINDOWED, final_logit_softcapping=2.0, attn_logit_softcapping=5.0),
    "gemma3_text": dict(
        WINDOWED, layer_types=["sliding_attention", "full_attention", "sliding_attention"]
    ),
    "gpt_neox": dict(
        vocab_size=VOCAB,
        hidden_size=D,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        intermediate_size=48,
    ),
    "phi": dict(SMALL, num_key_value_heads=4),  # its unembedding has a bias
}
every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)


@functools.cache
def tiny(name, attention="eager", dtype=torch.float32):
    """One of the architectures."""
    return build(name, ARCHITECTURES[name], attention).to(dtype)


def build(name, sizes, attention="eager"):
    """A random decoder whose blocks and biases all matter."""
    from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.for_model(name, pad_token_id=0, **sizes)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
        for parameter in model.parameters():
            parameter.data += 0.15 * torch.randn_like(parameter)
    return model.eval().requires_grad_(False)


def tokens(n=11, seed=0):
    """Prompts of 2 to 9 tokens; every second shares its prefix with the one before it."""
    rng = np.random.default_rng(seed)
    rows = [rng.integers(1, VOCAB, rng.integers(2, 10)).tolist() for _ in range(n)]
    for i in range(1, n, 2):
        rows[i] = [*rows[i - 1][:-1], int(rng.integers(1, VOCAB))]
    return rows


@functools.cache
def both(name):
    """The plain way's results and ours."""
    model, rows = tiny(name), tokens()
    plain = Plain(model, rows, OUTPUTS)
    return plain, plain.extract(), prepare(model, rows, OUTPUTS, chunk=3)


def frame(rng, r):
    """Orthonormal (D, r)."""
    return np.linalg.qr(rng.standard_normal((D, r)))[0]


@every_architecture
def test_extraction_equals_the_plain_way(name):
    _, (resid, jacobian, margins), prefixes = both(name)
    got = extract(prefixes)
    np.testing.assert_allclose(got.resid, resid, atol=1e-4)
    np.testing.assert_allclose(got.margins, margins, atol=1e-4)
    np.testing.assert_allclose(got.jacobian, jacobian, atol=1e-4)
    assert np.abs(jacobian).max() > 1e-2  # there is something to agree on


@every_architecture
def test_sweep_equals_separate_full_forwards(name):
    plain, (resid, jacobian, margins), prefixes = both(name)
    cores = cores_of(resid, jacobian)
    wanted = plain.sweep(cores)
    np.testing.assert_allclose(sweep(prefixes, edits_of(cores)), wanted, atol=1e-4)
    assert np.abs(wanted - margins[:, None]).max() > 0.05


@every_architecture
def test_any_hidden_state_is_carried_on_as_the_model_would(name):
    plain, _, prefixes = both(name)
    H = np.random.default_rng(1).standard_normal((11, D)).astype(np.float32)
    for layer in range(LAYERS):
        wanted = full_sweep(
            plain.model, tokens()[:1], OUTPUTS, layer, lambda _: torch.from_numpy(H[:1]), "last"
        )
        got = continue_from(prefixes, layer, H)
        np.testing.assert_allclose(got[:1], wanted, atol=1e-4)


@pytest.mark.parametrize("name", ["llama", "gemma3_text", "gpt2"])
def test_the_other_attention_kernel_gives_the_same(name):
    model = tiny(name, "sdpa")
    plain, rows = Plain(model, tokens(), OUTPUTS), tokens()
    resid, jacobian, _ = plain.extract()
    cores = cores_of(resid, jacobian)
    got = sweep(prepare(model, rows, OUTPUTS), edits_of(cores))
    np.testing.assert_allclose(got, plain.sweep(cores), atol=1e-4)


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2"])
def test_half_precision_stays_near(name):
    model = tiny(name, dtype=torch.bfloat16)
    prefixes = prepare(model, tokens(), OUTPUTS)
    _, (resid, jacobian, margins), _ = both(name)
    got = extract(prefixes)
    assert got.resid.dtype == got.jacobian.dtype == np.float32
    edits = edits_of(cores_of(resid, jacobian))
    exact = sweep(both(name)[2], edits)
    # bfloat16 keeps 8 bits: some per cent of the largest value after three blocks
    assert np.abs(got.margins - margins).max() < 0.05 * np.abs(margins).max()
    assert np.abs(sweep(prefixes, edits) - exact).max() < 0.05 * np.abs(exact).max()
    correlation = np.corrcoef(got.jacobian.ravel(), jacobian.ravel())[0, 1]
    assert correlation > 0.99


def test_a_jacobian_is_the_slope_of_the_continued_margin():
    _, _, prefixes = both("llama")
    got, rng = extract(prefixes), np.random.default_rng(2)
    for layer in range(LAYERS):
        step = 1e-2 * rng.standard_normal((11, D)).astype(np.float32)
        up, down = (continue_from(prefixes, layer, got.resid[:, layer] + s * step) for s in (1, -1))
        slope = np.einsum("nkd,nd->nk", got.jacobian[:, layer], 2 * step)
        np.testing.assert_allclose(up - down, slope, atol=2e-3 * np.abs(slope).max() + 1e-4)


def test_some_layers_and_outputs_are_those_of_the_whole():
    _, _, prefixes = both("gemma2")
    whole, some = extract(prefixes), extract(prefixes, layers=[2, 1], outputs=[2, 0])
    np.testing.assert_allclose(some.jacobian, whole.jacobian[:, [2, 1]][:, :, [2, 0]], atol=1e-5)
    np.testing.assert_array_equal(some.resid, whole.resid[:, [2, 1]])
    H, J = some.at(1)
    np.testing.assert_array_equal(H, whole.resid[:, 1])
    assert J.shape == (11, 2, D)


def test_rows_of_one_prompt_do_not_see_each_other():
    _, _, prefixes = both("llama")
    clean = prefixes.resid[:, 0]
    alone = continue_from(prefixes, 0, clean)
    for stranger in (-clean, 100 * clean):
        H = np.stack([stranger, clean, stranger], axis=1)
        np.testing.assert_allclose(continue_from(prefixes, 0, H)[:, 1], alone, atol=1e-5)


def test_a_mask_that_lets_rows_see_each_other_is_refused(monkeypatch):
    def leaky(recorded, length, rows, like):
        return torch.zeros(1, 1, rows, length + rows)

    monkeypatch.setattr("helpers.last_token.replay.row_mask", leaky)
    with pytest.raises(ValueError, match="cannot be replayed"):
        prepare(tiny("llama"), tokens(), OUTPUTS)


def test_a_forgotten_soft_cap_is_refused(monkeypatch):
    model, whole = tiny("gemma2"), take_apart(tiny("gemma2"))
    assert whole.softcap == 2.0
    without = type(whole)(**{**whole.__dict__, "softcap": None})
    monkeypatch.setattr("helpers.last_token.prefixes.take_apart", lambda model: without)
    with pytest.raises(ValueError, match="cannot be replayed"):
        prepare(model, tokens(), Outputs([3], [7]))


def test_a_masked_position_stays_masked():
    lowest = torch.finfo(torch.float32).min
    recorded = torch.tensor([[[[lowest, 0.0, 0.0]]]])
    mask = row_mask(recorded, 2, 2, torch.zeros(1))
    assert mask[0, 0].tolist() == [[lowest, 0, 0, lowest], [lowest, 0, lowest, 0]]
    as_bool = row_mask(recorded == 0, 2, 2, torch.zeros(1))
    assert torch.equal(mask, as_bool)
    assert row_mask(None, 2, 1, torch.zeros(1)).tolist() == [[[[0, 0, 0]]]]


def test_prompts_come_back_in_their_order_whatever_the_chunk():
    model, rows = tiny("gpt2"), tokens()
    core = ace(both("gpt2")[1][0][:, 1], both("gpt2")[1][1][:, 1], 1)
    edits = [Intervention(1, core.basis, core.mean, "flip")]
    results = [sweep(prepare(model, rows, OUTPUTS, chunk=c), edits) for c in (1, 2, 100)]
    np.testing.assert_allclose(results[0], results[1], atol=1e-5)
    np.testing.assert_allclose(results[0], results[2], atol=1e-5)


def test_selected_prompts_are_those_of_the_whole_in_the_order_asked_for():
    _, _, prefixes = both("llama")
    rows = [7, 0, 3, 7]
    some = prefixes.select(rows)
    np.testing.assert_array_equal(some.resid, prefixes.resid[rows])
    H = prefixes.resid[:, 0] * 1.5
    whole = continue_from(prefixes, 0, H)
    np.testing.assert_allclose(continue_from(some, 0, H[rows]), whole[rows], atol=1e-5)
    np.testing.assert_allclose(
        continue_from(prefixes.select(np.arange(11) == 4), 0, H[[4]]), whole[[4]], atol=1e-5
    )


def test_many_axes_at_one_layer_each_on_its_own_margin():
    rng, (_, _, prefixes) = np.random.default_rng(3), both("llama")
    ids = rng.integers(1, VOCAB, (150, 2))  # more versions than go side by side
    pairs = prefixes.scored_on(Outputs(ids[:, 0], ids[:, 1]))
    mean = prefixes.resid[:, 1].mean(0)
    edits = [Intervention(1, frame(rng, 2), mean, "remove") for _ in ids]
    own = sweep(pairs, edits, own=range(150))
    whole = sweep(pairs, edits)
    assert whole.shape == (11, 150, 150)
    np.testing.assert_array_equal(own, whole[:, range(150), range(150)])
    alone = sweep(pairs, edits[149:])[:, 0]
    np.testing.assert_allclose(whole[:, 149], alone, atol=1e-5)


def test_a_direction_can_be_trained_through_the_upper_layers():
    _, _, prefixes = both("llama")
    clean = torch.from_numpy(prefixes.resid[:, 1])
    direction = torch.nn.Parameter(torch.zeros(D))
    margins = continue_from(prefixes, 1, clean + direction, grad=True)
    margins[:, 0].sum().backward()
    wanted = extract(prefixes).jacobian[:, 1, 0].sum(0)
    np.testing.assert_allclose(direction.grad, wanted, atol=1e-4)
    assert not continue_from(prefixes, 1, clean + direction).requires_grad


def test_kept_prefixes_are_not_changed_by_use():
    prefixes = prepare(tiny("gemma3_text"), tokens(), OUTPUTS)
    before = [layer[0].clone() for g in prefixes.groups for layer in g.store]
    H = prefixes.resid[:, 0]
    first = continue_from(prefixes, 0, H)
    extract(prefixes)
    np.testing.assert_array_equal(continue_from(prefixes, 0, H), first)
    after = [layer[0] for g in prefixes.groups for layer in g.store]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    shared = sum(len(g.where) - len(g.store[0][0]) for g in prefixes.groups)
    assert shared >= 4  # prompts that share a prefix share its keys
    assert prefixes.megabytes > 0


@every_architecture
def test_above_a_layer_less_memory_gives_the_same(name):
    prefixes = prepare(tiny(name), tokens(), OUTPUTS)
    thin = prefixes.above(1)
    assert thin.megabytes < prefixes.megabytes
    rows = np.array([4, 0, 7])
    H = prefixes.resid[rows, 1] + 1
    np.testing.assert_array_equal(
        continue_from(thin.select(rows), 1, H), continue_from(prefixes.select(rows), 1, H)
    )
    some, whole = extract(thin, layers=[1]), extract(prefixes, layers=[1])
    np.testing.assert_array_equal(some.jacobian, whole.jacobian)
    with pytest.raises(IndexError, match=r"dropped by above\(\)"):
        continue_from(thin, 0, prefixes.resid[:, 0])
    continue_from(prefixes, 0, prefixes.resid[:, 0])  # the whole ones are as they were


def test_weights_are_the_models_own_and_no_hook_stays():
    model = tiny("qwen2")
    prepare(model, tokens(), OUTPUTS)
    full_sweep(model, tokens(), OUTPUTS, 0, lambda h: h)
    full_extract(model, tokens(), OUTPUTS)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@given(seed=st.integers(0, 10**6), r=st.integers(1, 5), mode=st.sampled_from(["keep", "remove"]))
@quick
def test_edits_equal_the_array_formula_and_two_flips_are_none(seed, r, mode):
    rng = np.random.default_rng(seed)
    H, Q, mean = rng.standard_normal((4, D)), frame(rng, r), rng.standard_normal(D)
    h, q, m = map(torch.from_numpy, (H, Q, mean))
    np.testing.assert_allclose(edited(h, q, m, mode), project(H, Q, mean, mode), atol=1e-12)
    flipped = edited(h, q, m, "flip")
    np.testing.assert_allclose(flipped, project(H, Q, mean, "flip"), atol=1e-12)
    np.testing.assert_allclose(edited(flipped, q, m, "flip"), H, atol=1e-12)
    with pytest.raises(ValueError, match="mode must be"):
        edited(h, q, m, "double")


def test_margins_of_logits_are_sums_and_differences():
    logits = torch.arange(20.0) ** 2
    outputs = Outputs([[3, 4], [3]], [[1, 2], [1, 1]])
    assert outputs.of_logits(logits).tolist() == [9 + 16 - 1 - 4, 9 - 2]


def test_edits_at_every_position_reach_what_later_positions_read():
    """A flip at the last position alone leaves earlier ones as they are; at all it does not."""
    model, rows = tiny("llama"), [t for t in tokens(40) if len(t) > 4][:6]
    clean = prepare(model, rows, OUTPUTS).margins
    np.testing.assert_allclose(full_sweep(model, rows, OUTPUTS, 0, lambda h: h), clean, atol=1e-5)
    head = full_sweep(model, rows, OUTPUTS, 0, torch.neg, [1] * len(rows))
    top = full_sweep(model, rows, OUTPUTS, LAYERS - 1, torch.neg, [1] * len(rows))
    assert np.abs(head - clean).max() > 1e-2
    np.testing.assert_allclose(top, clean, atol=1e-5)  # nothing reads it any more
    last = full_sweep(model, rows, OUTPUTS, 1, torch.neg, "last")
    same = full_sweep(model, rows, OUTPUTS, 1, torch.neg, [-1] * len(rows))
    np.testing.assert_array_equal(last, same)


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "phi", "granite"])
def test_full_sweeps_give_the_model_s_own_margins_whatever_follows_its_decoder(name):
    """Granite divides its logits, which no row of the unembedding knows."""
    extra = dict(SMALL, logits_scaling=3.0) if name == "granite" else ARCHITECTURES[name]
    model = tiny(name) if name in ARCHITECTURES else build(name, extra)
    rows = tokens(6)
    want = [OUTPUTS.of_logits(model(torch.tensor([row])).logits[0, -1]).numpy() for row in rows]
    np.testing.assert_allclose(full_sweep(model, rows, OUTPUTS, 0, lambda h: h), want, atol=1e-4)
    np.testing.assert_allclose(full_extract(model, rows, OUTPUTS).margins, want, atol=1e-4)


@pytest.mark.parametrize("name", ["gpt2", "gemma2"])
def test_plain_extraction_agrees_at_the_last_position(name):
    _, _, prefixes = both(name)
    got, fast = full_extract(tiny(name), tokens(), OUTPUTS), extract(prefixes)
    for field in ("resid", "jacobian", "margins"):
        np.testing.assert_allclose(getattr(got, field), getattr(fast, field), atol=1e-4)


def test_plain_extraction_at_the_head_is_the_total_derivative():
    model, rows = tiny("llama"), [t for t in tokens(40) if len(t) > 4][:3]
    step = 1e-2 * torch.randn(D, generator=torch.Generator().manual_seed(0))
    got = full_extract(model, rows, OUTPUTS, [1, 2, -2], layers=[0, 2])
    for n, layer in enumerate([0, 2]):
        up, down = (
            full_sweep(model, rows, OUTPUTS, layer, lambda h, s=s: h + s * step, [1, 2, -2])
            for s in (1, -1)
        )
        slope = got.jacobian[:, n] @ (2 * step.numpy())
        np.testing.assert_allclose(up - down, slope, atol=2e-3 * np.abs(slope).max() + 2e-5)
    assert np.abs(got.jacobian[:, 0]).max() > 1e-3
    assert not got.jacobian[:, 1].any()  # after the last block nothing reads it


def test_more_outputs_than_are_differentiated_at_once():
    ids = np.random.default_rng(5).integers(1, VOCAB, (2, 20))
    prefixes = both("gpt2")[2].scored_on(Outputs(*ids))
    whole = extract(prefixes).jacobian
    for k in (0, 16, 19):
        alone = extract(prefixes, outputs=[k]).jacobian
        np.testing.assert_allclose(whole[:, :, [k]], alone, atol=1e-5)
