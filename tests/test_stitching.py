"""A's first layers and B's last: whole under the right map, lost under a wrong one."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from helpers.alignment.haar import haar
from helpers.alignment.maps import Alignment
from helpers.cross_model import streams
from helpers.dyck.model import OUTPUTS
from helpers.stitching import Stitch, constant, score
from helpers.tasks import dyck
from tests.rotated_pair import rotated_pair

SITES = ("blocks.0.hook_resid_pre", "blocks.0.hook_resid_mid", "blocks.1.hook_resid_mid")
LAST = ("blocks.1.hook_resid_post", "ln_final.hook_normalized")


@pytest.fixture(scope="module")
def pair():
    return rotated_pair()


def through(R, shift=0.0):
    return Alignment(np.asarray(R), np.zeros(64), np.full(64, shift))


def own(model, pair):
    with torch.no_grad():
        return score(model(torch.from_numpy(pair.tokens)), pair.labels)


def test_loss_and_accuracy_are_the_plain_means_over_real_positions(pair):
    with torch.no_grad():
        logits = pair.A(torch.from_numpy(pair.tokens[:4]))
    labels = dyck.label(pair.tokens[:4])
    found = score(logits, labels)
    for name, part in OUTPUTS.items():
        losses, right = [], []
        for i, t in np.argwhere(pair.tokens[:4] != dyck.PAD):
            p = F.softmax(logits[i, t, part], dim=0).numpy()
            answer = getattr(labels, name)[i, t]
            losses.append(-np.log(p[answer]))
            right.append(p.argmax() == answer)
        assert found.loss[name] == pytest.approx(np.mean(losses))
        assert found.accuracy[name] == pytest.approx(np.mean(right))
    assert found.total == pytest.approx(sum(found.loss.values()))


def test_logits_that_know_the_answers_are_right_everywhere(pair):
    logits = torch.zeros(*pair.tokens.shape, 51)
    for name, part in OUTPUTS.items():
        answers = torch.from_numpy(getattr(pair.labels, name))
        logits[..., part] = 50.0 * F.one_hot(answers, part.stop - part.start)
    found = score(logits, pair.labels)
    assert found.total < 1e-9
    assert set(found.accuracy.values()) == {1.0}


def test_the_constant_is_the_entropy_and_no_constant_logits_beat_it(pair):
    found = constant(pair.labels)
    g = torch.Generator().manual_seed(100)
    for scale in (0.0, 1.0):
        logits = (scale * torch.randn(51, generator=g)).expand(*pair.tokens.shape, 51)
        given = score(logits, pair.labels)
        for name in OUTPUTS:
            assert found.loss[name] < given.loss[name]
            assert found.accuracy[name] >= given.accuracy[name]
    best = torch.full((51,), -60.0)
    for name, part in OUTPUTS.items():
        answers = getattr(pair.labels, name)[pair.labels.mask]
        values, counts = np.unique(answers, return_counts=True)
        best[part.start + values] = torch.tensor(np.log(counts / counts.sum())).float()
    given = score(best.expand(*pair.tokens.shape, 51), pair.labels)
    for name in OUTPUTS:
        assert found.loss[name] == pytest.approx(given.loss[name], abs=1e-5)
        assert found.accuracy[name] == pytest.approx(given.accuracy[name])


@pytest.mark.parametrize("site", [*SITES, *LAST])
def test_a_model_stitched_to_itself_is_itself(pair, site):
    stream = streams(pair.A, pair.tokens, [site])[site]
    found = Stitch(stream, pair.A, site, pair.labels)(through(np.eye(64)))
    wanted = own(pair.A, pair)
    for name in OUTPUTS:
        assert found.loss[name] == pytest.approx(wanted.loss[name], abs=1e-9)
        assert found.accuracy[name] == wanted.accuracy[name]


@pytest.mark.parametrize("site", [*SITES, *LAST])
def test_a_planted_rotation_stitches_without_loss_and_other_maps_do_not(pair, site):
    stitch = Stitch(streams(pair.A, pair.tokens, [site])[site], pair.B, site, pair.labels)
    wanted = own(pair.B, pair).total
    assert stitch(through(pair.R)).total == pytest.approx(wanted, abs=1e-8)
    random = haar(np.random.default_rng(100), 64, 1)[0]
    for broken in (np.eye(64), pair.R.T, random):
        assert abs(stitch(through(broken)).total - wanted) > 1e-3
    assert abs(stitch(through(pair.R, shift=1.0)).total - wanted) > 1e-3


def test_the_means_are_taken_off_and_put_on(pair):
    site = SITES[2]
    stream = streams(pair.A, pair.tokens, [site])[site]
    g = np.random.default_rng(100)
    mean = g.standard_normal(64)
    to_B = Alignment(pair.R, mean, mean @ pair.R)
    found = Stitch(stream, pair.B, site, pair.labels)(to_B)
    assert found.total == pytest.approx(own(pair.B, pair).total, abs=1e-8)


def test_other_rows_are_refused(pair, unchecked):
    stream = streams(pair.A, pair.tokens[:3], SITES[:1])[SITES[0]]
    with pytest.raises(ValueError, match="of the same rows"):
        Stitch(stream, pair.B, SITES[0], pair.labels)
    with pytest.raises(ValueError, match="at least one real position"):
        score(torch.zeros(3, 64, 51), pair.labels)
    nothing = dyck.label(np.zeros((2, 64), dtype=np.int64))
    with pytest.raises(ValueError, match="no real position"):
        constant(nothing)
