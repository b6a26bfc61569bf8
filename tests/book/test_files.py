"""Nothing is ever seen half-written, and a swap that was cut short is put right."""

import os

import pytest

from helpers.book.files import read_json, repair_swap, swap_folder, tree_digest, write_json


def folder(path, text):
    path.mkdir()
    (path / "index.html").write_text(text)
    return path


def test_a_swap_puts_the_new_in_the_place_of_the_old(tmp_path):
    target = folder(tmp_path / "html", "old")
    swap_folder(folder(tmp_path / "new", "new"), target)
    assert (target / "index.html").read_text() == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["html"]


@pytest.mark.parametrize("cut", [1, 2])
def test_a_swap_that_is_cut_short_loses_nothing(tmp_path, monkeypatch, cut):
    target = folder(tmp_path / "html", "old")
    rename, calls = os.rename, []

    def cut_rename(*names):
        calls.append(names)
        if len(calls) == cut:
            raise KeyboardInterrupt
        rename(*names)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "rename", cut_rename)
        swap_folder(folder(tmp_path / "new", "new"), target)
    assert repair_swap(target) == (cut == 2)
    assert (target / "index.html").read_text() == "old"
    assert not repair_swap(target)


def test_a_swap_that_only_missed_its_cleaning_keeps_the_new(tmp_path):
    target = folder(tmp_path / "html", "new")
    folder(tmp_path / "html.old", "old")
    assert repair_swap(target)
    assert (target / "index.html").read_text() == "new"
    assert not (tmp_path / "html.old").exists()


def test_a_write_that_fails_leaves_the_old_content(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert read_json(path) == {"a": 1}


def test_a_torn_json_file_reads_as_nothing(tmp_path):
    (tmp_path / "a.json").write_text('{"a": ')
    assert read_json(tmp_path / "a.json") is None
    assert read_json(tmp_path / "absent.json") is None


def test_the_digest_of_a_tree_sees_names_and_bytes(tmp_path):
    target = folder(tmp_path / "html", "a")
    first = tree_digest(target)
    (target / "index.html").write_text("b")
    second = tree_digest(target)
    (target / "index.html").rename(target / "other.html")
    assert len({first, second, tree_digest(target)}) == 3
