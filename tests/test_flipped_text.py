"""Generation with an edit, on tiny random models of several architectures."""

import numpy as np
import pytest
import scipy.stats
import torch

from helpers.axes import Axis
from helpers.flipped_text import (
    axis_edit,
    draw,
    edited,
    generate,
    perplexity,
    uniforms,
)
from helpers.verb_number import first_number

V, D = 37, 16
SIZES = dict(vocab_size=V, hidden_size=D, num_hidden_layers=3, num_attention_heads=2,
             num_key_value_heads=1, head_dim=8, intermediate_size=32,
             max_position_embeddings=64, initializer_range=0.4)  # fmt: skip


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**SIZES))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=V,
            n_embd=D,
            n_layer=3,
            n_head=2,
            n_positions=64,
            bos_token_id=0,
            eos_token_id=0,
            initializer_range=0.4,
        )
    )


def gemma3():
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    return Gemma3ForCausalLM(Gemma3TextConfig(**SIZES, sliding_window=4))


def neox():
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    sizes = {k: v for k, v in SIZES.items() if k not in ("num_key_value_heads", "head_dim")}
    return GPTNeoXForCausalLM(GPTNeoXConfig(**sizes))


@pytest.fixture(scope="module", params=[llama, gpt2, gemma3, neox])
def model(request):
    torch.manual_seed(0)
    return request.param().double().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    return llama().double().eval().requires_grad_(False)


PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8], [9, 10, 11], [12, 13, 14, 15, 16], [17]]


def push(model, token, size=1e4):
    """An edit of the last block that makes ``token`` win: far along its unembedding vector."""
    row = model.get_output_embeddings().weight[token]
    others = model.get_output_embeddings().weight.mean(dim=0)
    return lambda h: h + size * (row - others)


def far(h):
    return h + 5 * torch.sin(torch.arange(h.shape[-1]).to(h))


def test_an_identity_edit_gives_the_same_text(model):
    for layer in range(3):
        clean = generate(model, PROMPTS, 8)
        same = generate(model, PROMPTS, 8, edit=lambda h: h, layer=layer)
        np.testing.assert_array_equal(clean, same)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("edit", [None, far])
def test_with_cache_and_without_the_text_is_the_same(model, edit, temperature):
    given = dict(edit=edit, layer=None if edit is None else 1, temperature=temperature)
    fast = generate(model, PROMPTS, 10, **given)
    np.testing.assert_array_equal(fast, generate(model, PROMPTS, 10, cache=False, **given))


def test_an_edit_changes_the_text(model):
    clean = generate(model, PROMPTS, 10)
    assert (clean != generate(model, PROMPTS, 10, edit=far, layer=1)).mean() > 0.2


def test_an_edit_that_raises_one_logit_writes_that_token():
    torch.manual_seed(0)
    model = gpt2().double().eval()
    written = generate(model, PROMPTS, 5, edit=push(model, 23), layer=2, temperature=0.1)
    assert (written == 23).all()


def test_the_edit_reaches_the_prompts_last_position_and_every_new_token_only(small):
    for cache in (True, False):
        seen = []

        def watch(h, seen=seen):
            seen.append(len(h))
            return h

        generate(small, [[1, 2, 3, 4]] * 2, 3, edit=watch, layer=0, cache=cache)
        assert seen == ([2, 2, 2] if cache else [2, 4, 6])


def test_an_edit_at_the_last_position_leaves_the_earlier_ones_alone(small):
    """Logits at the edited position move; those before it are the clean ones to the bit."""
    ids = torch.tensor([[1, 2, 3, 4]])
    clean = small(ids).logits
    with edited(small, 1, far, first=3):
        moved = small(ids).logits
    torch.testing.assert_close(moved[:, :3], clean[:, :3], rtol=0, atol=0)
    assert (moved[:, 3] - clean[:, 3]).abs().max() > 1e-3


def test_the_edit_is_gone_afterwards_even_after_an_error(small):
    def broken(h):
        raise RuntimeError("broken edit")

    before = generate(small, PROMPTS, 4)
    with pytest.raises(RuntimeError, match="broken edit"):
        generate(small, PROMPTS, 4, edit=broken, layer=0)
    np.testing.assert_array_equal(before, generate(small, PROMPTS, 4))


def test_greedy_text_is_hugging_faces_own(small):
    for prompt in PROMPTS:
        ids = torch.tensor([prompt])
        theirs = small.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=6,
                                min_new_tokens=6, do_sample=False, pad_token_id=0)  # fmt: skip
        ours = generate(small, [prompt], 6, temperature=0.0, forbid=[2])  # 2 ends a Llama's text
        np.testing.assert_array_equal(ours[0], theirs[0, len(prompt) :].numpy())


def test_a_prompts_luck_depends_on_seed_row_and_step_alone(small):
    together = generate(small, PROMPTS, 6, seed=5)
    np.testing.assert_array_equal(together, generate(small, PROMPTS, 6, seed=5, batch=1))
    np.testing.assert_array_equal(together[:2], generate(small, PROMPTS[:2], 6, seed=5))
    assert (together != generate(small, PROMPTS, 6, seed=6)).any()


def test_clean_and_edited_text_share_their_random_numbers(small):
    """A slight edit hardly changes the text; another seed does."""
    clean = generate(small, PROMPTS * 4, 8, seed=1)
    nudged = generate(small, PROMPTS * 4, 8, seed=1, edit=lambda h: h * (1 + 1e-9), layer=1)
    other = generate(small, PROMPTS * 4, 8, seed=2)
    assert (clean == nudged).mean() > 0.99
    assert (clean == other).mean() < 0.5


def test_draws_follow_the_softmax_at_the_temperature():
    logits, n = torch.tensor([0.0, 1.0, -torch.inf, 2.0]), 20_000
    tokens = draw(logits.expand(n, 4), 0.7, uniforms(n, 1, 0)[:, 0])
    counts = np.bincount(tokens.numpy(), minlength=4)
    expected = n * (logits / 0.7).double().softmax(0).numpy()
    assert counts[2] == 0
    kept = [0, 1, 3]
    assert scipy.stats.chisquare(counts[kept], expected[kept]).pvalue > 1e-3


def test_the_largest_uniform_number_draws_a_token_that_exists():
    u = torch.tensor([np.nextafter(1.0, 0.0), 0.0])
    tokens = draw(torch.tensor([[-torch.inf, 0.0, 0.0, -torch.inf]]).expand(2, 4), 1.0, u)
    assert tokens.tolist() == [2, 1]


def test_forbidden_tokens_are_never_written(small):
    usual = generate(small, PROMPTS * 10, 8)
    forbidden = np.unique(usual)[:-3].tolist()
    assert not np.isin(generate(small, PROMPTS * 10, 8, forbid=forbidden), forbidden).any()


def test_what_holds_a_model_is_taken_as_well(small):
    class Holder:
        model = small

    np.testing.assert_array_equal(generate(Holder(), PROMPTS, 3), generate(small, PROMPTS, 3))


def test_perplexity_is_that_of_the_loss_of_hugging_face(model):
    after = [[3, 4], [5, 6], [7, 8, 9], [1], [2, 2]]
    ours = perplexity(model, PROMPTS, after)
    for row, (prompt, more) in enumerate(zip(PROMPTS, after, strict=True)):
        ids = torch.tensor([prompt + more])
        labels = ids.clone()
        labels[:, : len(prompt)] = -100
        assert ours[row] == pytest.approx(float(model(ids, labels=labels).loss.exp()), rel=1e-6)


def test_greedy_text_has_the_lower_perplexity(small):
    greedy = generate(small, PROMPTS, 6, temperature=0.0)
    assert (perplexity(small, PROMPTS, greedy) < perplexity(small, PROMPTS, (greedy + 1) % V)).all()


def test_an_axis_edit_is_the_axis_with_a_knob():
    rng = np.random.default_rng(0)
    read, write, mean = rng.standard_normal((3, D))
    axis = Axis(read / (read @ write), write, mean)
    H = rng.standard_normal((4, D))
    for strength, mode in ((1.0, "remove"), (2.0, "flip")):
        found = axis_edit(axis, strength)(torch.tensor(H)).numpy()
        np.testing.assert_allclose(found, axis.apply(H, mode), atol=1e-10)
    np.testing.assert_array_equal(axis_edit(axis, 0.0)(torch.tensor(H)).numpy(), H)


def test_an_axis_edit_keeps_bfloat16(small):
    axis = Axis.along(np.ones(D), np.zeros(D))
    assert axis_edit(axis)(torch.ones(2, D, dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize(
    "bad, message",
    [
        (dict(edit=far), "belong together"),
        (dict(layer=1), "belong together"),
        (dict(edit=far, layer=3), "layer 3 is not among"),
        (dict(edit=lambda h: h[:, :2], layer=0), "must keep the shape"),
        (dict(temperature=-1.0), "temperature ≥ 0"),
    ],
)
def test_bad_requests_are_refused(small, bad, message):
    with pytest.raises(ValueError, match=message):
        generate(small, PROMPTS, 2, **bad)


def test_empty_prompts_and_unequal_lists_are_refused(small):
    with pytest.raises(ValueError, match="at least one token"):
        generate(small, [[1], []], 2)
    with pytest.raises(ValueError, match="2 prompts for 1"):
        perplexity(small, [[1], [2]], [[3]])


SINGULAR, PLURAL = ["is", "was", " has", "does"], ["are", "were", "have", "do"]


@pytest.mark.parametrize(
    "text, number",
    [
        (" is on the table", 0),
        (" are on the table", 1),
        (" that he lost were is", 1),
        (" isn't here", 0),
        (" aren’t here", 1),
        (" WAS here", 0),
        (" lost. They are", None),
        (" one two three four five six seven is", 0),
        (" one two three four five six seven eight is", None),
        (" island area", None),
        ("", None),
    ],
)
def test_the_first_agreeing_verb_of_the_sentence_tells_number(text, number):
    assert first_number(text, SINGULAR, PLURAL) == number


def test_a_verb_of_both_numbers_is_refused():
    with pytest.raises(ValueError, match="both numbers"):
        first_number("", ["put"], ["put"])
