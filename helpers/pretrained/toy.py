"""Tiny random checkpoints of five architectures, with a tokenizer of whole words.

They go through the same loader as the real models, so a test of the whole experiment takes
seconds. As in the real tokenizers, a word with its space before it is one token: " is".
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from helpers.pretrained import folders
from helpers.pretrained.gguf_file import quiet

ARCHITECTURES = ("gpt2", "llama", "gemma2", "qwen2", "neox")
_ADDS_BOS = {"llama", "gemma2"}  # as their real tokenizers do
_SPECIAL = ("<unk>", "<bos>", "<eos>")


def folder(architecture: str, words: Sequence[str] | None = None, seed: int = 0) -> Path:
    """The checkpoint's folder in the cache, made where it is not there; arguments as for `save`."""
    _known(architecture)
    words = list(default_words() if words is None else words)
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    versions = [metadata.version(name) for name in ("transformers", "tokenizers", "torch")]
    what = json.dumps([architecture, words, seed, code, versions])
    key = f"{architecture}-{hashlib.sha256(what.encode()).hexdigest()[:40]}"
    write = functools.partial(save, architecture, words=words, seed=seed, agreeing=True)
    return folders.kept("pretrained.toy", key, write)


def save(
    architecture: str,
    to: Path,
    *,
    words: Sequence[str] | None = None,
    seed: int = 0,
    agreeing: bool = False,
) -> None:
    """Write config, safetensors and tokenizer to the folder `to`.

    The vocabulary holds each of `words` as it is and capitalised, with and without a space before
    it, and the signs . , ? ! ; (`words` None: those of chapter 3's prompts.) `agreeing` plants
    number in it, by `plant_number`.
    Raises ValueError for an unknown architecture, or a word that is not one word.
    """
    words = list(default_words() if words is None else words)
    made = tokenizer(words, adds_bos=architecture in _ADDS_BOS)
    decoder = model(architecture, len(made), seed)
    if agreeing:
        plant_number(decoder, made, seed)
    with quiet():
        decoder.save_pretrained(to)
        made.save_pretrained(to)


def plant_number(decoder: Any, made: Any, seed: int = 0, strength: float = 4.0) -> None:
    """Give the embeddings of nouns, and the unembeddings of verbs, one direction for number.

    Plural forms move by +`strength` along it, singular ones by −`strength`, so that the random
    model tells a noun's number right after it, and prefers the verb that agrees.
    """
    import torch

    from helpers.tasks.agreement.lexicon import SPLITS, nouns
    from helpers.tasks.agreement.verbs import CANDIDATES

    generator, vocabulary = torch.Generator().manual_seed(seed), made.get_vocab()
    W_E, W_U = (
        layer.weight for layer in (decoder.get_input_embeddings(), decoder.get_output_embeddings())
    )
    axis = torch.randn(W_E.shape[1], generator=generator)
    axis *= strength / axis.norm()
    forms = [(noun.singular, noun.plural) for split in SPLITS for noun in nouns(split)]
    with torch.no_grad():
        for weight, pairs in ((W_E, forms), (W_U, CANDIDATES)):
            for pair in pairs:
                for sign, form in zip((-1, 1), pair, strict=True):
                    for token in (form, f" {form}"):
                        if token in vocabulary:
                            weight[vocabulary[token]] += sign * axis


def model(architecture: str, d_vocab: int, seed: int = 0) -> Any:
    """A decoder of 3 layers and d_model 32 with random weights; logits differ clearly by token."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        made = AutoModelForCausalLM.from_config(
            config(architecture, d_vocab), attn_implementation="eager"
        )
        with torch.no_grad():
            for tensor in made.parameters():
                # norms off their trivial values, so that a forgotten norm shows
                if tensor.ndim == 1:
                    tensor.add_(0.1 * torch.randn_like(tensor))
    return made.eval()


def config(architecture: str, d_vocab: int) -> Any:
    """The architecture's own settings, at a tiny size; grouped heads where it has them."""
    import transformers

    _known(architecture)
    size = {
        "vocab_size": d_vocab,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "initializer_range": 0.2,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 2,
    }
    grouped = {"num_key_value_heads": 2}
    if architecture == "gpt2":
        return transformers.GPT2Config(
            n_embd=32,
            n_layer=3,
            n_head=4,
            n_inner=64,
            n_positions=64,
            **_but(
                size,
                "hidden_size",
                "num_hidden_layers",
                "num_attention_heads",
                "intermediate_size",
                "max_position_embeddings",
            ),
        )
    if architecture == "llama":
        return transformers.LlamaConfig(**size, **grouped)
    if architecture == "gemma2":
        return transformers.Gemma2Config(
            **size,
            **grouped,
            head_dim=8,
            query_pre_attn_scalar=8,
            sliding_window=32,
            final_logit_softcapping=30.0,
            attn_logit_softcapping=50.0,
        )
    if architecture == "qwen2":
        return transformers.Qwen2Config(**size, **grouped)
    return transformers.GPTNeoXConfig(**size)


def tokenizer(words: Sequence[str], adds_bos: bool) -> Any:
    """A tokenizer over `words` (see `save`), with <unk>, <bos> and <eos> as tokens 0, 1 and 2."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = dict.fromkeys(_SPECIAL)
    for word in (*words, *".,?!;"):
        if not word or word.split() != [word]:
            raise ValueError(f"{word!r} is not one word; the toy vocabulary takes single words.")
        for form in (word, word[0].upper() + word[1:]):
            vocabulary |= {form: None, f" {form}": None}
    ids = {token: i for i, token in enumerate(vocabulary)}
    made = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    # a word with the space before it; a sign stands alone
    pattern = Regex(r" ?[^\s.,?!;]+| ?[.,?!;]|\s+")
    made.pre_tokenizer = pre_tokenizers.Split(pattern, behavior="isolated")
    made.decoder = decoders.Fuse()
    if adds_bos:
        made.post_processor = processors.TemplateProcessing(
            single="<bos> $A", special_tokens=[("<bos>", 1)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", bos_token="<bos>", eos_token="<eos>"
    )


def default_words() -> list[str]:
    """The words of chapter 3's prompts and outputs."""
    from helpers.tasks.agreement.vocabulary import vocabulary

    return list(vocabulary())


def _but(settings: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in names}


def _known(architecture: str) -> None:
    if architecture not in ARCHITECTURES:
        raise ValueError(f"there is no toy {architecture!r}. There are {', '.join(ARCHITECTURES)}.")
