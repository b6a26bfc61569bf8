"""Steering of language models: sentences in order, and the fast path against whole runs."""

import numpy as np
import pytest
import torch

from helpers.pretrained import load
from helpers.steering.contrasts import CONTRASTS, Contrast
from helpers.steering.language import LanguageSteerer, language_direction, padded

SITE = "blocks.1.hook_resid_post"
FEW = Contrast(
    "few",
    (("up here", "down here now"), ("up", "down")),
    ("go", "we went"),
    ((" up", " down"), (" up there", " low")),
)


def by_bytes(texts):
    """Token ids of a tokenizer that knows single bytes."""
    return [[byte % 90 + 3 for byte in text.encode()] for text in texts]


@pytest.fixture(scope="module")
def bridge():
    return load("toy:neox").bridge()


def test_the_contrasts_are_twenty_different_sentences_a_class():
    assert [c.name for c in CONTRASTS] == ["sentiment", "name", "number size"]
    for contrast in CONTRASTS:
        sentences = {*contrast.plus, *contrast.minus}
        assert len(contrast.pairs) == 20 and len(sentences) == 40
        assert not any(s.startswith(prompt) for s in sentences for prompt in contrast.prompts)
        assert len(set(contrast.prompts)) == len(contrast.prompts)
        for pair in contrast.answers:
            assert pair[0] != pair[1] and all(answer[0] == " " for answer in pair)


def test_a_direction_is_the_difference_of_the_sentences_means(bridge):
    means = []
    for texts in (FEW.plus, FEW.minus):
        runs = [bridge.run_with_cache(torch.tensor([row]))[1][SITE] for row in by_bytes(texts)]
        means.append(torch.stack([x[0].mean(dim=0) for x in runs]).mean(dim=0))
    found = language_direction(bridge, by_bytes, FEW, SITE)
    assert found == pytest.approx((means[0] - means[1]).numpy(), abs=1e-5)


def score(bridge, prompt, answer, vector):
    """log P(answer | prompt), from a whole run with the vector added by a hook."""
    (head,), (tail,) = by_bytes([prompt]), by_bytes([answer])
    row = torch.tensor([[*head, *tail]])
    add = [(SITE, lambda value, hook: value + torch.as_tensor(vector).float())]
    log_p = bridge.run_with_hooks(row, fwd_hooks=add)[0].double().log_softmax(dim=-1)
    return sum(float(log_p[len(head) - 1 + i, t].detach()) for i, t in enumerate(tail))


def test_the_shift_is_that_of_whole_runs_with_and_without_the_vector(bridge):
    vector = np.random.default_rng(0).standard_normal(bridge.cfg.d_model)
    found = LanguageSteerer(bridge, by_bytes, FEW, SITE)(vector, [0, 0.5])
    assert found.shape == (2, 2, 2) and found[0] == pytest.approx(0, abs=1e-6)
    for i, prompt in enumerate(FEW.prompts):
        for j, (plus, minus) in enumerate(FEW.answers):
            now, before = (
                score(bridge, prompt, plus, v) - score(bridge, prompt, minus, v)
                for v in (0.5 * vector, 0 * vector)
            )
            assert found[1, i, j] == pytest.approx(now - before, abs=1e-4)


def test_many_vectors_in_parts_are_as_one_by_one(bridge, monkeypatch):
    vectors = np.random.default_rng(1).standard_normal((3, bridge.cfg.d_model))
    steerer = LanguageSteerer(bridge, by_bytes, FEW, SITE)
    alone = np.concatenate([steerer(vector, [1]) for vector in vectors])
    monkeypatch.setattr("helpers.steering.language.AT_ONCE", 5)
    assert steerer.shifts(vectors) == pytest.approx(alone, abs=1e-5)


def test_a_token_that_begins_every_text_stands_once(bridge):
    def with_bos(texts):
        return [[1, *row] for row in by_bytes(texts)]

    steerer = LanguageSteerer(bridge, with_bos, FEW, SITE)
    assert int((steerer.tokens == 1).sum()) == len(steerer.tokens)


def test_steering_behind_the_last_block_is_refused(bridge):
    for site in ("blocks.2.hook_resid_post", "blocks.0.hook_resid_pre"):
        with pytest.raises(ValueError, match="so that a block follows"):
            LanguageSteerer(bridge, by_bytes, FEW, site)
    steerer = LanguageSteerer(bridge, by_bytes, FEW, SITE)
    with pytest.raises(ValueError, match="a direction is"):
        steerer(np.full(bridge.cfg.d_model, np.nan), [1])
    with pytest.raises(ValueError, match="at least one dose"):
        steerer(np.zeros(bridge.cfg.d_model), [])
    with pytest.raises(ValueError, match="no hook point"):
        language_direction(bridge, by_bytes, FEW, "blocks.9.hook_resid_post")


def test_padding_stands_behind():
    tokens, real = padded([[5, 6], [7]])
    assert tokens.tolist() == [[5, 6], [7, 0]] and real.tolist() == [[True, True], [True, False]]
