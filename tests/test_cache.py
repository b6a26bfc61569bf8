"""What is kept comes back exactly, belongs to one computation, and is never trusted blindly."""

import dataclasses
import errno
import hashlib
import importlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
import warnings
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from helpers.cache import (
    CacheError,
    CacheFolderError,
    CacheKeyError,
    CacheWarning,
    cache_folder,
    cached,
)
from helpers.cache.codec import MARK, Encoded, decode, encode
from helpers.cache.keys import canonical


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("HELPERS_CACHE", str(folder))
    monkeypatch.setattr("helpers.cache.store._warned", set())
    return folder


calls = []


@cached()
def squares(n: int, scale: float = 1.0, *, shift=None) -> dict:
    calls.append(n)
    return {"x": scale * np.arange(n) ** 2, "w": torch.arange(n), "shift": shift, "sum": 3.5}


@pytest.fixture(autouse=True)
def _no_calls():
    calls.clear()


# ------------------------------------------------------------------ what comes back


def same(a, b) -> bool:
    """Equal in type, dtype, shape and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray | np.generic):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    if isinstance(a, torch.Tensor):
        return (a.dtype, a.shape) == (b.dtype, b.shape) and torch.equal(a, b)
    if isinstance(a, float):
        return a.hex() == b.hex()  # tells 0.0 from -0.0, and NaN equals itself
    return a == b


def round_trip(result: dict) -> dict:
    files = encode("a function", result).files()
    return decode(Encoded.from_files(files))


DTYPES = st.sampled_from(
    [
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    ]
).map(np.dtype)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, SHAPES))
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), ARRAYS, ARRAYS.map(np.array)
)
KEYS = st.text().filter(lambda key: key != MARK)
TREES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)


@given(st.dictionaries(KEYS, TREES, max_size=4))
@settings(max_examples=150, deadline=None)
def test_any_tree_of_supported_values_comes_back_exactly(result):
    assert same(round_trip(result), result)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float64", "complex64", "complex128"]
)
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_tensors_of_every_dtype_come_back_exactly(dtype, shape):
    tensor = (torch.randn(shape).abs() * 3).to(getattr(torch, dtype))
    if tensor.is_complex():
        tensor = tensor * (1 + 2j)
    assert same(round_trip({"t": tensor}), {"t": tensor})


@pytest.mark.parametrize(
    "value",
    [
        np.float64(0.1),
        np.int64(-3),
        np.bool_(True),
        np.complex128(1 - 2j),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::-3],
        np.array([0.0, -0.0, np.nan, np.inf]),
    ],
)
def test_numbers_and_unusual_layouts_come_back_exactly(value):
    assert same(round_trip({"v": value}), {"v": value})


def test_tensors_that_share_memory_come_back_each_with_its_own():
    whole = torch.arange(6.0).reshape(2, 3)
    back = round_trip({"whole": whole, "row": whole[0], "turned": whole.T})
    assert same(back, {"whole": whole, "row": whole[0], "turned": whole.T.contiguous()})
    back["row"][0] = 7
    assert back["whole"][0, 0] == 0


@pytest.mark.parametrize(
    "value, says",
    [
        ({1, 2}, r"result\['v'\] is a set"),
        ((1, 2), "is a tuple"),
        ({"deep": [1, object()]}, r"\['v'\]\['deep'\]\[1\] is a object"),
        ({3: 1}, "has the key 3"),
        ({MARK: 1}, "has the key"),
        (np.array(["a"]), "dtype <U1"),
        (np.array([None]), "dtype object"),
        (np.array([1.0], dtype=">f8"), "dtype >f8"),
        (np.ma.masked_array([1.0]), "is a MaskedArray"),
        (torch.eye(2).to_sparse(), "layout torch.sparse_coo"),
        (1 + 2j, "is a complex"),
    ],
)
def test_what_cannot_be_kept_exactly_is_refused_with_its_place(value, says):
    with pytest.raises(CacheError, match=says):
        encode("a function", {"v": value})


def test_a_function_that_returns_no_dict_is_refused():
    with pytest.raises(CacheError, match=r"squares.* returns a list|wrong returns a list"):
        cached()(wrong)()


def wrong():
    return [1]


def test_the_first_call_returns_what_later_calls_do():
    first, second = squares(3), squares(3)
    assert calls == [3]
    assert same(first, second)


def test_a_gradient_is_dropped_from_the_first_call_on():
    result = cached()(with_gradient)()
    assert result["w"].requires_grad is False


def with_gradient():
    return {"w": torch.ones(2, requires_grad=True)}


def test_changing_a_result_does_not_change_what_is_kept():
    squares(3)["x"][:] = 99
    squares(3)["x"][:] = 99
    assert squares(3)["x"].tolist() == [0, 1, 4]


def test_nothing_is_pickled(cache):
    squares(3)
    files = {path.name for path in cache.rglob("*") if path.is_file()}
    assert files == {
        "manifest.json",
        "values.json",
        "arrays.safetensors",
        "tensors.safetensors",
    }


# ------------------------------------------------------------------ what the key is made of


def key(*args, **kwargs) -> str:
    return squares.entry(*args, **kwargs).name


def test_defaults_and_keywords_make_no_difference():
    assert key(3) == key(n=3) == key(3, 1.0) == key(3, shift=None, scale=1.0)


@pytest.mark.parametrize(
    "a, b",
    [
        (1, 1.0),
        (1, True),
        (1, "1"),
        (0.0, -0.0),
        (0.1, np.nextafter(0.1, 1)),
        (None, "None"),
        ([1, 2], (1, 2)),
        ([1, 2], [2, 1]),
        ([], None),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        (np.arange(4), np.arange(4.0)),
        (np.arange(4), np.arange(4).reshape(2, 2)),
        (np.arange(4), torch.arange(4)),
        (torch.zeros(2), torch.zeros(2, dtype=torch.complex64)),
        (torch.zeros(()), torch.ones(())),
        (0.5, np.float64(0.5)),
    ],
)
def test_different_parameters_have_different_keys(a, b):
    assert key(3, shift=a) != key(3, shift=b)


@pytest.mark.parametrize(
    "a, b",
    [
        (float("nan"), float("nan")),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3))),
        (torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j])),
    ],
)
def test_equal_parameters_have_equal_keys(a, b):
    assert key(3, shift=a) == key(3, shift=b)


@given(TREES, TREES)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_keys_are_equal_just_where_the_values_are(a, b):
    equal = json.dumps(canonical(a, "a")) == json.dumps(canonical(b, "b"))
    assert equal == (same(a, b) or _same_but_order(a, b))


def _same_but_order(a, b) -> bool:
    return same(_sorted(a), _sorted(b))


def _sorted(value):
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


@dataclasses.dataclass(frozen=True)
class Settings:
    width: int
    rate: float = 0.1


def test_a_dataclass_counts_with_its_fields():
    assert key(3, shift=Settings(4)) == key(3, shift=Settings(4, 0.1))
    assert key(3, shift=Settings(4)) != key(3, shift=Settings(5))


@pytest.mark.parametrize(
    "value",
    [
        np.random.default_rng(0),
        print,
        {1, 2},
        Path("x"),
        object(),
        {1: 2},
        [object()],
        np.ma.masked_array([1.0]),
    ],
)
def test_a_parameter_without_a_stable_key_is_refused_by_name(value):
    with pytest.raises(CacheKeyError, match="squares: parameter shift"):
        squares(3, shift=value)
    assert calls == []


def test_a_wrong_call_fails_as_the_function_would():
    with pytest.raises(TypeError, match="missing a required argument: 'n'"):
        squares()


def test_versions_of_the_named_packages_count(monkeypatch):
    function = cached(packages=("numpy",))(wrong)
    before = function.entry()
    monkeypatch.setattr("importlib.metadata.version", lambda package: "99.0")
    assert function.entry() != before


def test_a_package_that_is_not_installed_is_refused():
    with pytest.raises(CacheKeyError, match="package no_such_package is not installed"):
        cached(packages=("no_such_package",))(wrong)()


def test_a_module_without_source_is_refused():
    with pytest.raises(CacheKeyError, match="no_such_module has no source file"):
        cached(uses=("no_such_module",))(wrong)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A module `science_x` that uses the module `tools_x` and the package `pack_x`."""
    folder = tmp_path / "project"
    (folder / "pack_x" / "deep").mkdir(parents=True)
    write = {
        "tools_x.py": "FACTOR = 2\n",
        "pack_x/__init__.py": "",
        "pack_x/deep/__init__.py": "",
        "pack_x/deep/inner.py": "TERM = 1\n",
        "science_x.py": """
            from helpers.cache import cached
            import tools_x
            from pack_x.deep import inner
            @cached(uses=(tools_x, "pack_x"))
            def compute(a):
                return {"value": a * tools_x.FACTOR + inner.TERM}
            """,
    }
    for name, text in write.items():
        (folder / name).write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield folder
    forget()


def forget():
    for name in [name for name in sys.modules if name.split(".")[0].endswith("_x")]:
        del sys.modules[name]


def fresh():
    """`science_x` as a new Python would import it."""
    forget()
    importlib.invalidate_caches()
    return importlib.import_module("science_x").compute


@pytest.mark.parametrize(
    "file, old, new, result",
    [
        ("science_x.py", "a * tools_x", "(a + 1) * tools_x", 9),
        ("tools_x.py", "FACTOR = 2", "FACTOR = 5", 16),
        ("pack_x/deep/inner.py", "TERM = 1", "TERM = 4", 10),
    ],
)
def test_changed_code_is_noticed_in_every_module_named(project, file, old, new, result):
    before = fresh()
    assert before(3) == {"value": 7}
    path = project / file
    path.write_text(path.read_text().replace(old, new))
    after = fresh()
    assert after(3) == {"value": result}
    assert before.entry(3) != after.entry(3)


def test_unchanged_code_is_used_again_by_a_new_python(project):
    first = fresh()
    first(3)
    assert fresh().entry(3) == first.entry(3)
    assert fresh().entry(3).is_dir()


def test_code_that_changed_after_the_import_is_neither_kept_nor_read(project, cache):
    compute = fresh()
    (project / "tools_x.py").write_text("FACTOR = 5\n")
    with pytest.warns(CacheWarning, match="tools_x changed on disk after the import"):
        assert compute(3) == {"value": 7}  # the code in memory is the old one
    assert not cache.exists()


def test_a_function_outside_any_module_is_kept_by_its_own_source(tmp_path):
    script = tmp_path / "cell.py"
    script.write_text(
        textwrap.dedent("""
        from helpers.cache import cached
        @cached()
        def f(a): return {"a": a}
        print(f.entry(1)); f(1); print(f(1))
        """)
    )
    root = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, str(script)], env=env, capture_output=True, text=True, check=True
    )
    folder, result = done.stdout.splitlines()
    assert Path(folder).is_dir() and result == "{'a': 1}"


# ------------------------------------------------------------------ damage, disks, other writers


def files_of(*args) -> list[Path]:
    return sorted(squares.entry(*args).iterdir())


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize("harm", [flip, cut, Path.unlink])
@pytest.mark.parametrize("number", range(4))
def test_damage_to_any_file_is_noticed_named_and_repaired(harm, number):
    good = squares(3)
    path = files_of(3)[number]
    harm(path)
    with pytest.warns(CacheWarning, match=path.name.replace(".", r"\.")) as caught:
        assert same(squares(3), good)
    assert str(squares.entry(3)) in str(caught[0].message)
    assert calls == [3, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(squares(3), good)
    assert calls == [3, 3]


def test_every_single_flipped_byte_of_the_manifest_is_noticed():
    squares(2)
    path = squares.entry(2) / "manifest.json"
    content = path.read_bytes()
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            # A flip that makes no difference to what the JSON says does no harm.
            if json.loads(path.read_bytes()) == json.loads(content):
                continue
        except ValueError:
            pass
        calls.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            squares(2)
        assert calls == [2], content[place - 20 : place + 20]
        content = path.read_bytes()


def test_an_empty_folder_in_the_place_of_a_result_is_damage():
    squares.entry(3).mkdir(parents=True)
    with pytest.warns(CacheWarning, match="is damaged"):
        squares(3)
    assert len(files_of(3)) == 4


def test_a_file_in_the_place_of_a_result_is_damage():
    squares.entry(3).parent.mkdir(parents=True)
    squares.entry(3).write_text("x")
    with pytest.warns(CacheWarning, match="is damaged"):
        squares(3)
    assert len(files_of(3)) == 4


def test_a_writer_that_dies_leaves_nothing_that_looks_finished(cache, monkeypatch):
    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("os.rename", die)
        with pytest.raises(KeyboardInterrupt):
            squares(3)
    assert [path for path in cache.rglob("*") if path.is_file()] == []
    assert len(squares(3)["x"]) == 3


def test_old_remains_of_killed_writers_are_swept_and_young_ones_kept(cache):
    for name, age in (("old", 90_000), ("young", 10)):
        folder = cache / ".partial" / name
        folder.mkdir(parents=True)
        (folder / "values.json").write_text("{}")
        os.utime(folder, (time.time() - age,) * 2)
    squares(3)
    assert [path.name for path in (cache / ".partial").iterdir()] == ["young"]


Usage = namedtuple("Usage", "total used free")


def test_a_disk_without_room_keeps_nothing_and_says_how_much_is_needed_and_where(
    cache, monkeypatch
):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1, 1, 1000))
    with pytest.warns(CacheWarning, match=r"needs \d.* in .*cache, where 1000 bytes are free"):
        assert len(squares(3)["x"]) == 3
    assert [path for path in cache.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_fills_up_while_writing_loses_no_result(cache, monkeypatch, code):
    def full(_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.warns(CacheWarning, match="set HELPERS_CACHE") as caught:
        assert len(squares(3)["x"]) == 3
        assert len(squares(3)["x"]) == 3
    assert len(caught) == 1 and calls == [3, 3]
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_a_folder_that_cannot_be_written_warns_once_and_computes(monkeypatch):
    def refuse(self, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.warns(CacheWarning, match="cannot be written.*Set HELPERS_CACHE") as caught:
        assert len(squares(3)["x"]) == 3
        assert len(squares(3)["x"]) == 3
    assert len(caught) == 1 and calls == [3, 3]


def test_a_result_in_a_folder_that_cannot_be_written_is_read(monkeypatch):
    squares(3)
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: pytest.fail("wrote"))
    squares(3)
    assert calls == [3]


def test_another_fault_while_writing_is_not_hidden(monkeypatch):
    def broken(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output error"):
        squares(3)


def test_a_cache_folder_that_is_a_file_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HELPERS_CACHE", str(tmp_path / "file"))
    with pytest.raises(CacheFolderError, match=r"is a file\. Set HELPERS_CACHE"):
        squares(3)


@pytest.mark.parametrize("place", ["file/deeper", "loop", "x" * 300])
def test_a_cache_folder_that_cannot_be_made_is_noticed_before_computing(
    tmp_path, monkeypatch, place
):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    monkeypatch.setenv("HELPERS_CACHE", str(tmp_path / place))
    with pytest.raises(CacheFolderError, match=r"cannot be made.*Set HELPERS_CACHE"):
        squares(3)
    assert calls == []


def test_a_file_where_a_function_s_results_go_is_noticed_before_computing(cache):
    cache.mkdir()
    squares.entry(3).parent.write_text("")
    with pytest.raises(CacheFolderError, match="cannot be made"):
        squares(3)
    assert calls == []


@pytest.mark.parametrize("files", [{}, [], ["values.json"]])
def test_a_manifest_with_its_hash_that_names_no_files_is_damage(files):
    good = squares(3)
    path = squares.entry(3) / "manifest.json"
    body = {**json.loads(path.read_text())["body"], "files": files}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({"sha256": digest, "body": body}))
    with pytest.warns(CacheWarning, match=r"names no values\.json"):
        assert same(squares(3), good)


def test_under_the_runner_damage_is_a_note_and_no_warning(tmp_path, monkeypatch):
    squares(3)
    cut(files_of(3)[0])
    monkeypatch.setenv("BOOK_RECORDS", str(tmp_path))
    monkeypatch.setenv("BOOK_CHAPTER", "01_one")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        squares(3)
    [note] = (tmp_path / "01_one.notes").read_text().splitlines()
    assert str(squares.entry(3)) in note and "is damaged" in note


def test_a_note_that_has_no_place_is_a_warning(tmp_path, monkeypatch):
    squares(3)
    cut(files_of(3)[0])
    monkeypatch.setenv("BOOK_RECORDS", str(tmp_path / "absent"))
    monkeypatch.setenv("BOOK_CHAPTER", "01_one")
    with pytest.warns(CacheWarning, match="is damaged"):
        squares(3)


def test_without_the_variable_the_users_cache_folder_is_used(monkeypatch, tmp_path):
    monkeypatch.delenv("HELPERS_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert "invariant-transformer" in cache_folder().parts


WRITER = """
import sys, warnings
import numpy as np
from helpers.cache import codec, keys, store
warnings.simplefilter("error")
from pathlib import Path
folder = Path(sys.argv[1])
for i in range(40):
    encoded = codec.encode("f", {"x": np.arange(2000), "i": 0})
    store.keep(folder / "f" / f"key{i % 3}", encoded, "f", {})
    back = codec.decode(store.fetch(folder / "f" / f"key{i % 3}"))
    assert back["x"].tolist() == list(range(2000)), "torn"
"""


def test_many_writers_of_one_result_leave_it_whole(cache):
    root = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", WRITER, str(cache)]
    writers = [
        subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    errors = [writer.communicate(timeout=120)[1] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 4, errors
    assert sorted(path.name for path in (cache / "f").iterdir()) == ["key0", "key1", "key2"]
    assert list((cache / ".partial").iterdir()) == []
