"""A loaded model with its tokenizer, and what must be said about both."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from helpers.pretrained.licences import Licence

if TYPE_CHECKING:
    from transformer_lens.model_bridge import TransformerBridge


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A Hugging Face decoder (evaluation mode, eager attention, no gradients of its weights).

    `source` says where it came from, `revision` which version (a commit of the hub, a package's
    version, a hash), `placement` in words which dtype and device it has. `adds_bos`: the model was
    trained with a token of its own before each text, and `to_tokens` puts it there.
    """

    name: str
    model: Any
    tokenizer: Any
    licence: Licence
    source: str
    revision: str
    adds_bos: bool
    placement: str

    @property
    def n_layers(self) -> int:
        """Number of blocks."""
        return self.model.config.num_hidden_layers

    @property
    def d_model(self) -> int:
        """Width of the residual stream."""
        return self.model.config.hidden_size

    @property
    def d_vocab(self) -> int:
        """Number of logits."""
        return self.model.config.vocab_size

    def to_tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Each text's token ids, without padding; the first is BOS if and only if `adds_bos`.

        Raises TypeError for a single string, ValueError for a text that gives no token, or one
        that the vocabulary does not cover.
        """
        if isinstance(texts, str):
            raise TypeError(f"to_tokens takes a list of texts; write to_tokens([{texts!r}]).")
        if not len(texts):
            return []
        rows = self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        before = [self.tokenizer.bos_token_id] if self.adds_bos else []
        unknown = self.tokenizer.unk_token_id
        for text, row in zip(texts, rows, strict=True):
            if not row and not before:
                raise ValueError(f"the text {text!r} gives no token for {self.name}.")
            if unknown is not None and unknown in row:
                raise ValueError(
                    f"{text!r} has a word that the vocabulary of {self.name} does not cover."
                )
        return [[*before, *row] for row in rows]

    def bridge(self) -> TransformerBridge:
        """The same weights as a TransformerBridge, made at the first call.

        A bridge changes the modules of the model it is given, so it gets modules of its own that
        hold the very same parameters: `model` stays what it is, and no memory is spent. Only a
        model that accelerate spread over devices is handed over itself. `to_tokens` of the bridge
        may add a BOS that the model does not want: use ours.
        """
        return self._bridge

    @cached_property
    def _bridge(self) -> TransformerBridge:
        from transformer_lens.model_bridge import TransformerBridge

        model, tokenizer = self.model, _as_it_is(self.tokenizer)
        spread = getattr(model, "hf_device_map", None) or {}
        if len(set(spread.values())) < 2:
            held = chain(model.parameters(), model.buffers())
            model = copy.deepcopy(model, {id(tensor): tensor for tensor in held})
        first = next(model.parameters())
        bridge = TransformerBridge.boot_transformers(
            self.name, hf_model=model, tokenizer=tokenizer, device=None, dtype=first.dtype
        )
        return bridge.eval()


def _as_it_is(tokenizer: Any) -> Any:
    """A shallow copy that TransformerLens takes over as it is.

    Without the mark it would read the tokenizer once more, by name, to have a BOS added; and it
    sets special tokens, which must not reach ours.
    """
    spare = copy.copy(tokenizer)
    spare.init_kwargs = {**tokenizer.init_kwargs, "name_or_path": "", "add_bos_token": True}
    spare._special_tokens_map = dict(tokenizer._special_tokens_map)
    return spare


def wants_bos(tokenizer: Any) -> bool:
    """Whether the tokenizer, left to itself, puts its BOS token before a text."""
    bos = tokenizer.bos_token_id
    if bos is None:
        return False
    plain = tokenizer("a", add_special_tokens=False)["input_ids"]
    return tokenizer("a")["input_ids"][: len(plain) + 1] == [bos, *plain]


def settle(model: Any) -> Any:
    """Evaluation mode, no gradients of weights, and the name that TransformerLens looks for.

    The unembedding gets its input in one piece. Of the last position's hidden states, a slice of
    all of them, PyTorch would else make one product a prompt, and read the vocabulary for each:
    measured on 48 prompts of Gemma 3, six times the time.
    """
    if not getattr(model.config, "architectures", None):
        model.config.architectures = [type(model).__name__]
    head = model.get_output_embeddings()
    if head is not None:
        head.register_forward_pre_hook(_in_one_piece)
    return model.eval().requires_grad_(False)


def _in_one_piece(module: Any, inputs: tuple) -> tuple:
    return (inputs[0].contiguous(), *inputs[1:])
