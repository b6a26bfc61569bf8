"""The hooked post-norm model is the plain one, and PyTorch's own post-norm encoder layer."""

import pytest
import torch

from helpers.models import ModelConfig, SmallTransformer, to_bridge
from helpers.post_norm import to_hooked

CONFIG = ModelConfig(7, 3, n_layers=2, d_model=16, n_heads=4, d_mlp=24, norm="post")


def generator():
    return torch.Generator().manual_seed(0)


def shaken(config=CONFIG) -> SmallTransformer:
    model, draw = SmallTransformer(config, 0).eval(), generator()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=draw)
    return model


def tokens():
    return torch.randint(7, (5, 3), generator=generator())


@torch.no_grad()
def test_hooked_and_plain_agree():
    model = shaken()
    hooked = to_hooked(CONFIG, model.state_dict())
    logits, cache = hooked.run_with_cache(tokens())
    torch.testing.assert_close(logits, model(tokens()), atol=1e-5, rtol=1e-5)
    resid = cache["blocks.1.hook_resid_post"]
    torch.testing.assert_close(resid, model.resid_post(tokens()), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(resid @ hooked.W_U, logits, atol=1e-5, rtol=1e-5)
    assert torch.equal(cache["hook_embed"], hooked.W_E[tokens()])


@torch.no_grad()
def test_a_block_is_pytorch_s_own_post_norm_layer():
    model = shaken()
    block = model.layers[0]
    theirs = torch.nn.TransformerEncoderLayer(16, 4, 24, 0.0, batch_first=True).eval()
    maps = [block.attn.q, block.attn.k, block.attn.v]
    theirs.load_state_dict(
        {
            "self_attn.in_proj_weight": torch.cat([m.weight for m in maps]),
            "self_attn.in_proj_bias": torch.cat([m.bias for m in maps]),
            **{f"self_attn.out_proj.{k}": v for k, v in block.attn.o.state_dict().items()},
            **{f"linear1.{k}": v for k, v in block.mlp.fc_in.state_dict().items()},
            **{f"linear2.{k}": v for k, v in block.mlp.fc_out.state_dict().items()},
            **{f"norm1.{k}": v for k, v in block.ln1.state_dict().items()},
            **{f"norm2.{k}": v for k, v in block.ln2.state_dict().items()},
        }
    )
    x = torch.randn(5, 3, 16, generator=generator())
    mask = torch.nn.Transformer.generate_square_subsequent_mask(3)
    wanted = theirs(x, src_mask=mask, is_causal=True)
    torch.testing.assert_close(block(x), wanted, atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", ["hook_resid_mid", "attn.hook_pattern", "mlp.hook_post"])
def test_an_intervention_at_a_hook_reaches_the_logits(name):
    hooked = to_hooked(CONFIG, shaken().state_dict())
    changed = hooked.run_with_hooks(
        tokens(), fwd_hooks=[(f"blocks.0.{name}", lambda value, hook: value * 0.5)]
    )
    assert (changed - hooked(tokens())).abs().max() > 1e-3


def test_patterns_are_causal():
    hooked = to_hooked(CONFIG, shaken().state_dict())
    _, cache = hooked.run_with_cache(tokens())
    for layer in range(2):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"]
        assert torch.allclose(pattern.sum(-1), torch.ones(5, 4, 3))
        assert pattern.triu(1).abs().max() == 0


def test_each_kind_of_model_has_its_own_door():
    with pytest.raises(ValueError, match=r"helpers\.post_norm\.to_hooked"):
        to_bridge(CONFIG, shaken().state_dict())
    pre = ModelConfig(7, 3, d_model=16, d_mlp=24)
    with pytest.raises(ValueError, match="to_bridge"):
        to_hooked(pre, SmallTransformer(pre).state_dict())


def test_more_tokens_than_the_context_are_named():
    """One position would else be added to all of them."""
    config = ModelConfig(7, 1, d_model=16, d_mlp=24, norm="post")
    hooked = to_hooked(config, SmallTransformer(config).state_dict())
    with pytest.raises(ValueError, match="3 tokens do not fit in n_ctx = 1"):
        hooked(tokens())


BLOCK = ("resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post")
INSIDE = ("attn.hook_q", "attn.hook_k", "attn.hook_v", "attn.hook_attn_scores")
INSIDE += ("attn.hook_pattern", "attn.hook_z", "mlp.hook_pre", "mlp.hook_post")
HOOKS = ["hook_embed", "hook_pos_embed"]
HOOKS += [f"blocks.{i}.hook_{name}" for i in range(2) for name in BLOCK]
HOOKS += [f"blocks.{i}.{name}" for i in range(2) for name in INSIDE]


@torch.no_grad()
def test_every_hook_lies_on_the_way_to_the_logits():
    hooked = to_hooked(CONFIG, shaken().state_dict())
    _, cache = hooked.run_with_cache(tokens())
    assert sorted(cache) == sorted(HOOKS)
    draw = generator()
    for name in HOOKS:
        noise = 0.3 * torch.randn(cache[name].shape, generator=draw)
        changed = hooked.run_with_hooks(
            tokens(), fwd_hooks=[(name, lambda value, hook, noise=noise: value + noise)]
        )
        assert (changed - hooked(tokens())).abs().max() > 1e-3, name
