"""The lean module and the TransformerLens bridge are the same function of the weights."""

import pytest
import torch

from helpers.models import ModelConfig, SmallTransformer, to_bridge, unembed_input

SMALL = ModelConfig(d_vocab=5, n_ctx=12, d_model=16, n_heads=2, d_mlp=24)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def shaken(config: ModelConfig, seed: int = 0) -> SmallTransformer:
    """A model with every parameter away from its start, so that no gain or bias can hide."""
    model = SmallTransformer(config, seed).eval()
    draw = generator(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=draw)
    return model


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        ModelConfig(d_vocab=3, n_ctx=16, n_layers=2, d_model=64, n_heads=4, d_mlp=256),
        ModelConfig(d_vocab=7, n_ctx=8, n_layers=3, d_model=24, n_heads=1, d_mlp=8),
        ModelConfig(d_vocab=4, n_ctx=32, d_model=32, n_heads=8, d_mlp=128),
    ],
    ids=["small", "two-layers", "one-head", "eight-heads"],
)
def test_lean_model_and_bridge_agree(config):
    model = shaken(config)
    bridge = to_bridge(config, model.state_dict())
    tokens = torch.randint(config.d_vocab, (3, config.n_ctx), generator=generator())
    last = f"blocks.{config.n_layers - 1}.hook_resid_post"
    with torch.no_grad():
        logits, cache = bridge.run_with_cache(tokens)
        torch.testing.assert_close(logits, model(tokens), atol=1e-5, rtol=1e-5)
        resid = model.resid_post(tokens)
        torch.testing.assert_close(cache[last], resid, atol=1e-5, rtol=1e-5)
        read = unembed_input(config, model.state_dict(), tokens)
        torch.testing.assert_close(cache["unembed.hook_in"], read, atol=1e-5, rtol=1e-5)


def test_each_weight_changes_the_bridge():
    """A mutant: were a parameter not copied, changing it would leave the bridge as it was."""
    config = SMALL
    state = shaken(config).state_dict()
    tokens = torch.randint(config.d_vocab, (2, config.n_ctx), generator=generator())
    with torch.no_grad():
        before = to_bridge(config, state)(tokens)
        for name in state:
            changed = dict(state)
            changed[name] = state[name] + torch.randn(state[name].shape, generator=generator(1))
            difference = (to_bridge(config, changed)(tokens) - before).abs().max()
            # softmax ignores what the key bias adds to every score alike
            assert (difference > 1e-3) != name.endswith("k.bias"), name


def test_the_bridge_has_the_unembedding_under_its_usual_name():
    model = shaken(SMALL)
    bridge = to_bridge(SMALL, model.state_dict())
    torch.testing.assert_close(bridge.W_U.T, model.head.weight)


def test_the_future_does_not_change_the_past():
    model = shaken(SMALL)
    tokens = torch.zeros(1, 12, dtype=torch.long)
    changed = tokens.clone()
    changed[0, 7:] = 3
    with torch.no_grad():
        a, b = model(tokens), model(changed)
    torch.testing.assert_close(a[:, :7], b[:, :7])
    assert (a[:, 7] - b[:, 7]).abs().max() > 1e-3


def test_same_seed_same_weights_whatever_the_global_generator_says():
    torch.manual_seed(1)
    one = SmallTransformer(SMALL, 3).state_dict()
    torch.manual_seed(2)
    two = SmallTransformer(SMALL, 3).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_different_seeds_differ_in_every_matrix():
    one, two = (SmallTransformer(SMALL, seed).state_dict() for seed in (0, 1))
    for name, value in one.items():
        if value.ndim == 2:
            assert (value - two[name]).abs().mean() > 0.05, name


def test_weights_start_with_the_stated_spread():
    config = ModelConfig(d_vocab=64, n_ctx=64, d_model=128, d_mlp=512)
    state = SmallTransformer(config).state_dict()
    assert state["tok_embed.weight"].std() == pytest.approx(0.5, rel=0.05)
    for name, value in state.items():
        if value.ndim == 2 and "embed" not in name and "pos" not in name:
            assert value.std() == pytest.approx(value.shape[1] ** -0.5, rel=0.05), name
        if name.endswith("bias"):
            assert (value == 0).all(), name


def test_dropout_acts_in_training_alone():
    model = SmallTransformer(SMALL, 0, dropout=0.5)
    tokens = torch.randint(5, (2, 12), generator=generator())
    with torch.no_grad():
        assert not torch.equal(model.train()(tokens), model(tokens))
        assert torch.equal(model.eval()(tokens), model(tokens))


def test_weights_of_another_size_are_named():
    state = SmallTransformer(SMALL).state_dict()
    wider = ModelConfig(d_vocab=5, n_ctx=12, d_model=32, n_heads=2, d_mlp=24)
    with pytest.raises(ValueError, match=r"do not fit ModelConfig\(.*d_model=32.*look at head"):
        to_bridge(wider, state)


def test_missing_weights_are_named():
    state = SmallTransformer(SMALL).state_dict()
    del state["pos.weight"]
    with pytest.raises(ValueError, match=r"do not fit .* look at pos\.weight"):
        to_bridge(SMALL, state)


def test_too_many_tokens_are_named():
    with pytest.raises(ValueError, match="13 tokens do not fit in n_ctx = 12"):
        SmallTransformer(SMALL)(torch.zeros(1, 13, dtype=torch.long))


@pytest.mark.parametrize("name", ["d_vocab", "n_ctx", "n_layers", "d_model", "n_heads", "d_mlp"])
def test_a_size_below_one_is_named(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1; got 0"):
        ModelConfig(**({"d_vocab": 4, "n_ctx": 8} | {name: 0}))


def test_heads_that_do_not_fill_the_width_are_named():
    with pytest.raises(ValueError, match="d_model = 64 does not split into n_heads = 5"):
        ModelConfig(d_vocab=4, n_ctx=8, n_heads=5)


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_dropout_out_of_range_is_named(dropout):
    with pytest.raises(ValueError, match=r"dropout must lie in \[0, 1\)"):
        SmallTransformer(SMALL, 0, dropout)
