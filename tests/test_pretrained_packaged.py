"""The packaged models: refused when damaged or swapped, converted once, kept whole."""

import contextlib
import dataclasses
import hashlib
import re
import subprocess
import threading
import warnings

import pytest

from helpers.cache import CacheWarning
from helpers.pretrained import (
    ModelAbsentError,
    ModelFileError,
    card,
    folders,
    gguf_file,
    install,
    load,
    packaged,
)
from helpers.pretrained import converted as converting
from helpers.pretrained.converted import converted

ABSENT = install.absent()
here = {
    name: pytest.mark.skipif(
        name in ABSENT, reason=f"{name} is absent: python -m helpers.pretrained.install"
    )
    for name in packaged.PACKAGED
}


@pytest.fixture
def planted(monkeypatch, tmp_path):
    """A packaged model "planted" in two parts, and what was handed on to be parsed."""
    files = [tmp_path / "one.part0", tmp_path / "two.part1"]
    for file, content in zip(files, (b"GGUF first", b" and second"), strict=True):
        file.write_bytes(content)
    whole = b"GGUF first and second"
    spec = dataclasses.replace(
        packaged.PACKAGED["gemma3"],
        parts=(("p-one", "one.part0"), ("p-two", "two.part1")),
        size=len(whole),
        sha256=hashlib.sha256(whole).hexdigest(),
    )
    monkeypatch.setitem(packaged.PACKAGED, "planted", spec)

    def find(package, file):
        return tmp_path / file if (tmp_path / file).is_file() else None

    monkeypatch.setattr(packaged, "_file", find)
    parsed = []

    def parse(file, folder):
        parsed.append(file.read_bytes())
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(b"w" * 1000)

    monkeypatch.setattr(gguf_file, "convert", parse)
    monkeypatch.setenv("HELPERS_CACHE", str(tmp_path / "cache"))
    return files, parsed, tmp_path


def test_the_parts_are_joined_in_order_and_read_once(planted):
    _, parsed, tmp_path = planted
    first = converted("planted", tmp_path)
    assert parsed == [b"GGUF first and second"]
    assert sorted(p.name for p in first.iterdir()) == [
        *("config.json", "manifest.json", "model.safetensors")
    ]
    assert converted("planted", tmp_path) == first and len(parsed) == 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b" and sEcond", "SHA-256 begins with"),
        (b" and", "14 bytes instead of 21"),
        (b"", "10 bytes"),
    ],
)
@pytest.mark.parametrize("warm", [False, True])
def test_a_damaged_or_swapped_file_is_refused_by_name_before_it_is_read(
    planted, content, said, warm
):
    files, parsed, tmp_path = planted
    if warm:  # a kept conversion is no excuse
        converted("planted", tmp_path)
    before = len(parsed)
    files[1].write_bytes(content)
    with pytest.raises(ModelFileError, match=rf"two\.part1 \(p-two\).*{said}.*--again"):
        converted("planted", tmp_path)
    assert len(parsed) == before


def test_a_file_swapped_between_the_check_and_the_copy_is_refused_too(planted, tmp_path):
    files, _, _ = planted
    packaged.verify("planted")
    files[0].write_bytes(b"GGUF other")
    with pytest.raises(ModelFileError):
        packaged.verify("planted", tmp_path / "joined")
    assert not (tmp_path / "joined").exists()


def test_an_absent_part_is_named_with_what_to_run(planted):
    files, parsed, tmp_path = planted
    files[1].unlink()
    with pytest.raises(ModelAbsentError, match=r"p-two is not installed.*pretrained\.install"):
        converted("planted", tmp_path)
    assert parsed == []


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("model.safetensors", lambda path: path.write_bytes(b"w" * 999 + b"x")),
        ("config.json", lambda path: path.unlink()),
        ("manifest.json", lambda path: path.write_text("{}")),
        (
            "manifest.json",
            lambda path: path.write_text(path.read_text().replace("config", "konfig")),
        ),
        ("stray.json", lambda path: path.write_text("{}")),
    ],
)
def test_a_damaged_kept_folder_is_named_and_made_anew(planted, file, damage):
    _, parsed, tmp_path = planted
    folder = converted("planted", tmp_path)
    damage(folder / file)
    with pytest.warns(CacheWarning, match=rf"{folder.name} is damaged \({file}|{file} "):
        assert converted("planted", tmp_path) == folder
    assert len(parsed) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        converted("planted", tmp_path)


def test_another_version_of_a_package_is_another_folder(planted, monkeypatch):
    key = converting.key("planted")
    monkeypatch.setattr(converting.metadata, "version", lambda name: "9.9")
    assert converting.key("planted") != key


def test_a_folder_that_cannot_be_written_costs_a_warning_not_the_model(planted, monkeypatch):
    _, parsed, tmp_path = planted

    def full(folder, needed):
        if "cache" in folder.parts:
            raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr(folders, "check_room", full)
    spare = tmp_path / "spare"
    spare.mkdir()
    with pytest.warns(CacheWarning, match="cannot be kept .No space left"):
        folder = converted("planted", spare)
    assert folder == spare / "planted" and len(parsed) == 1
    assert list((tmp_path / "cache" / ".partial").iterdir()) == []


def test_two_writers_at_once_leave_one_whole_folder(planted):
    _, _, tmp_path = planted
    barrier, found = threading.Barrier(2, timeout=20), []

    def write(folder):
        (folder / "file").write_bytes(b"same")
        barrier.wait()  # both are past the look for a kept folder

    def make():
        found.append(folders.kept("kind", "key", write))

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2 and found[0] == found[1]
    folders.check(found[0])
    assert list((tmp_path / "cache" / ".partial").iterdir()) == []


def test_a_writer_that_fails_leaves_nothing(planted):
    _, _, tmp_path = planted

    def fail(folder):
        (folder / "half").write_bytes(b"x")
        raise KeyError("stopped")

    with pytest.raises(KeyError):
        folders.kept("kind", "other", fail)
    assert not (tmp_path / "cache" / "kind" / "other").exists()
    assert list((tmp_path / "cache" / ".partial").iterdir()) == []


def test_the_lock_pins_every_packaged_file_by_hash_and_nothing_else(root):
    lock = install.lock_file()
    assert lock == root / "models.lock"
    text = re.sub(r"^#.*\n", "", lock.read_text(encoding="utf-8"), flags=re.MULTILINE)
    pins = re.findall(r"^(\S+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}\n", text, re.MULTILINE)
    wanted = set()
    for name in ("smollm2", "gemma3"):
        spec = packaged.PACKAGED[name]
        wanted |= {(spec.package, spec.version)}
        wanted |= {(package, spec.version) for package, _ in spec.parts}
    assert set(pins) == wanted and "://" not in text
    assert len(text.splitlines()) == 2 * len(pins)


def test_the_installer_asks_for_hashes_and_for_no_dependencies(monkeypatch):
    asked, missing = [], [["gemma3"], []]
    monkeypatch.setattr(install, "absent", lambda: missing.pop(0))
    done = subprocess.CompletedProcess([], 0)
    monkeypatch.setattr(install.subprocess, "run", lambda command: asked.append(command) or done)
    assert install.install() == ["gemma3"]
    assert {"--no-deps", "--require-hashes", str(install.lock_file())} <= set(asked[0])


def test_the_installer_does_nothing_where_nothing_is_absent_and_says_when_pip_fails(monkeypatch):
    monkeypatch.setattr(install, "absent", lambda: [])
    failed = subprocess.CompletedProcess([], 1)
    monkeypatch.setattr(install.subprocess, "run", lambda command: failed)
    assert install.install() == []
    monkeypatch.setattr(install, "absent", lambda: ["smollm2"])
    with pytest.raises(ModelAbsentError, match="could not install the models smollm2"):
        install.install()


@pytest.fixture
def tiny(tmp_path):
    """A small Llama in a GGUF file of its own, with 8-bit weights and a byte-level tokenizer."""
    import gguf
    import numpy as np

    rng = np.random.default_rng(0)
    file = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(file, "llama")
    for setting, value in {
        "context_length": 64,
        "embedding_length": 32,
        "block_count": 2,
        "feed_forward_length": 64,
        "head_count": 4,
        "head_count_kv": 2,
        "layer_norm_rms_eps": 1e-5,
        "rope_freq_base": 1e4,
        "rope_dimension_count": 8,
    }.items():
        getattr(writer, f"add_{setting}")(value)
    tokens = ["<s>", *map(chr, range(97, 123)), "Ġ", "he", "Ġthe", "th"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))
    writer.add_token_merges(["h e", "t h"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    shapes = {"token_embd": (len(tokens), 32), "output_norm": (32,)}
    for i in range(2):
        shapes |= {
            f"blk.{i}.attn_q": (32, 32),
            f"blk.{i}.attn_k": (16, 32),
            f"blk.{i}.attn_v": (16, 32),
            f"blk.{i}.attn_output": (32, 32),
            f"blk.{i}.ffn_gate": (64, 32),
            f"blk.{i}.ffn_up": (64, 32),
            f"blk.{i}.ffn_down": (32, 64),
            f"blk.{i}.attn_norm": (32,),
            f"blk.{i}.ffn_norm": (32,),
        }
    for name, shape in shapes.items():
        weight = rng.standard_normal(shape).astype(np.float32)
        if weight.ndim == 2:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(f"{name}.weight", gguf.quantize(weight, kind), raw_dtype=kind)
        else:
            writer.add_tensor(f"{name}.weight", weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def test_what_is_remembered_changes_no_byte_of_the_result(tiny, tmp_path, monkeypatch):
    made = {}
    for way in ("remembering", "plain"):
        if way == "plain":
            monkeypatch.setattr(gguf_file, "remembering", contextlib.nullcontext)
        folder = tmp_path / way
        folder.mkdir()
        gguf_file.convert(tiny, folder)
        made[way] = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert made["remembering"] == made["plain"]
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(made["plain"])


def test_a_converted_folder_loads_as_a_plain_model_in_float32(tiny, tmp_path):
    import gguf

    folder = tmp_path / "made"
    folder.mkdir()
    gguf_file.convert(tiny, folder)
    loaded = load(str(folder), device="cpu")
    assert loaded.model.config.architectures == ["LlamaForCausalLM"]
    assert not hasattr(loaded.model.config, "quantization_config")
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(tiny).tensors}
    embedded = tensors["token_embd.weight"]
    expected = gguf.dequantize(embedded.data, embedded.tensor_type)
    assert (loaded.model.get_input_embeddings().weight.numpy() == expected).all()


@here["smollm2"]
@here["gemma3"]
def test_the_installed_files_are_the_pinned_ones_and_carry_their_licences():
    for name in ("smollm2", "gemma3"):
        packaged.verify(name)
    assert "Apache License" in packaged.licence("smollm2").text
    assert "GEMMA_TERMS" in packaged.licence("gemma3").text


@pytest.fixture(scope="module")
def smollm2():
    """The real model: 10 to 20 s the first time, unless this run's cache has it."""
    return load("smollm2", device="cpu")


@here["smollm2"]
def test_smollm2_has_its_sizes_no_bos_and_single_token_verbs(smollm2):
    assert (smollm2.n_layers, smollm2.d_model, smollm2.d_vocab) == (30, 576, 49152)
    rows = smollm2.to_tokens([" is", " are", " was", " were"])
    assert [len(row) for row in rows] == [1] * 4 and not smollm2.adds_bos
    assert "Apache 2.0" in card([smollm2])


@here["smollm2"]
def test_smollm2_s_bridge_gives_the_logits_of_hugging_face(smollm2):
    import torch

    tokens = torch.tensor(smollm2.to_tokens(["The key to the cabinets"]))
    with torch.no_grad():
        theirs = smollm2.model(tokens).logits
        ours = smollm2.bridge()(tokens, return_type="logits")
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


@here["smollm2"]
def test_smollm2_knows_english(smollm2):
    import torch

    tokens = torch.tensor(smollm2.to_tokens(["The dogs", "The dog"]))
    singular, plural = (row[0] for row in smollm2.to_tokens([" is", " are"]))
    with torch.no_grad():
        last = smollm2.model(tokens).logits[:, -1]
    margin = last[:, plural] - last[:, singular]
    assert margin[0] > 0 > margin[1]
