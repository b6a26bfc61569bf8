"""The prose pages keep their promises: a reason for each dependency, and no work uncited."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "book").glob("*.md"))


def dependencies() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        lines += extra
    names = {re.match(r"[A-Za-z0-9._-]+", line)[0].lower().replace("_", "-") for line in lines}
    locked = (ROOT / "models.lock").read_text(encoding="utf-8")
    models = re.findall(r"^([a-z0-9-]+)==", locked, re.MULTILINE)
    # a model in several packages has one reason
    names |= {re.sub(r"-part\d+$", "", name) for name in models}
    return names - {project["name"]}


def with_reasons(text: str) -> set[str]:
    """Names in bold at the head of a list item that goes on with a reason."""
    found = set()
    for line in re.findall(r"^- (\*\*.+?)$", text, re.MULTILINE):
        head, _, reason = line.partition(": ")
        if len(reason.split()) >= 2:
            found |= {name.lower() for name in re.findall(r"\*\*([^*]+)\*\*", head)}
    return found


def test_every_dependency_has_a_reason_and_every_reason_a_dependency():
    text = (ROOT / "book" / "contributing.md").read_text(encoding="utf-8")
    section = text.split("## What we depend on, and why")[1].split("\n## ")[0]
    assert with_reasons(section) == dependencies()


def test_a_dependency_without_a_reason_is_noticed():
    assert with_reasons("- **torch**: models and training\n- **numpy**\n- **scipy**: x") == {
        "torch"
    }


def cited(text: str) -> set[str]:
    roles = re.findall(r"\{cite(?::[a-z]+)?\}`([^`]+)`", text)
    return {key.strip() for role in roles for key in role.split(",")}


def test_works_cited_and_works_listed_are_the_same():
    sources = [*PAGES, *sorted((ROOT / "notebooks").glob("*.ipynb"))]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    listed = re.findall(
        r"^@\w+\{([^,]+),", (ROOT / "book/references.bib").read_text(), re.MULTILINE
    )
    assert len(listed) == len(set(listed))
    assert cited(text) <= set(listed)
    assert set(listed) - cited(text) == set()


@pytest.mark.parametrize("path", [*PAGES, ROOT / "README.md"], ids=lambda path: path.name)
def test_pages_hold_no_unfinished_words_and_no_paths_of_a_machine(path):
    text = path.read_text(encoding="utf-8")
    assert not re.search(r"\b(TODO|TBD|FIXME|lorem|coming soon)\b", text, re.IGNORECASE)
    assert not re.search(r"(?<![\w/.:])/(home|root|tmp|work|Users)/", text)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_each_page_has_one_title(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    assert len(re.findall(r"^# \S", text, re.MULTILINE)) == 1


def test_book_looks_load_nothing():
    css = (ROOT / "book" / "assets" / "book.css").read_text(encoding="utf-8")
    assert "url(" not in css and "@import" not in css
