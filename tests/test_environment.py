"""pyproject.toml, requirements.lock and environment.yml say the same."""

import os
import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name


def pins(lock: str) -> tuple[dict[str, str], list[str]]:
    """The lock's versions by name, and the lines that are no plain pin."""
    found, odd = {}, []
    for line in lock.splitlines():
        if not line or line.startswith("#"):
            continue
        pin = re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!]+)", line)
        if pin:
            found[canonicalize_name(pin[1])] = pin[2]
        else:
            odd.append(line)
    return found, odd


def problems(pyproject: str, lock: str, environment: str) -> list[str]:
    """Where the three files contradict each other."""
    project = tomllib.loads(pyproject)["project"]
    extras = project["optional-dependencies"]
    locked, odd = pins(lock)
    found = [f"not a plain pin: {line}" for line in odd]
    wanted = [*project["dependencies"], *(r for extra in extras.values() for r in extra)]
    for requirement in map(Requirement, wanted):
        version = locked.get(canonicalize_name(requirement.name))
        if version is None:
            found.append(f"{requirement.name} is not locked")
        elif not requirement.specifier.contains(version, prereleases=True):
            found.append(f"{requirement.name} is locked at {version}, outside its range")
    conda = yaml.safe_load(environment)["dependencies"]
    python = next(d.split("=")[1] for d in conda if isinstance(d, str) and d.startswith("python="))
    if not SpecifierSet(project["requires-python"]).contains(f"{python}.0"):
        found.append(f"environment.yml asks for Python {python}")
    lines = next(d["pip"] for d in conda if isinstance(d, dict))
    if "-c requirements.lock" not in lines:
        found.append("environment.yml does not use the lock")
    own = re.findall(r"^-e \.\[(.+)\]$", "\n".join(lines), re.MULTILINE)
    if len(own) != 1 or set(own[0].split(",")) != set(extras):
        found.append("environment.yml does not install the project with every extra")
    if len(lines) != 2 or len(conda) != 3:
        found.append("environment.yml lists packages of its own")
    return found


@pytest.fixture
def files(root: Path) -> dict[str, str]:
    names = {
        "pyproject": "pyproject.toml",
        "lock": "requirements.lock",
        "environment": "environment.yml",
    }
    return {name: (root / file).read_text(encoding="utf-8") for name, file in names.items()}


def test_the_three_files_agree(files):
    assert problems(**files) == []


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("pyproject", '"scipy>=1.11",', '"scipy>=99",'),
        ("pyproject", '"scipy>=1.11",', '"scipy>=1.11", "no-such-package",'),
        ("pyproject", 'requires-python = ">=3.11"', 'requires-python = ">=3.12"'),
        ("pyproject", "\ntest = [", "\nmore = []\ntest = ["),
        ("lock", "torch==", "# torch=="),
        ("lock", "torch==2", "torch==1"),
        ("lock", "torch==", "torch @ file:///x=="),
        ("lock", "\ntorch==2.13.0", "\ntorch==2.13.0+cpu"),
        ("environment", "python=3.11", "python=3.10"),
        ("environment", "-c requirements.lock", "-c other.lock"),
        ("environment", ".[book,test]", ".[book]"),
        ("environment", "  - pip:", "  - scipy\n  - pip:"),
    ],
)
def test_a_contradiction_is_noticed(files, file, old, new):
    assert old in files[file]
    assert problems(**{**files, file: files[file].replace(old, new, 1)})


def missing_pins(names: dict[str, str]) -> list[str]:
    """Requirements of the locked packages, as installed here, that the lock does not meet."""
    found = []
    for name in names:
        try:
            requirements = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            found.append(f"{name} is locked but not installed")
            continue
        for requirement in map(Requirement, requirements):
            if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
                continue
            # torch for a GPU needs libraries that torch for the processor does not
            if name == "torch" and requirement.name.startswith(("nvidia", "triton", "cuda")):
                continue
            version = names.get(canonicalize_name(requirement.name))
            if requirement.name in {"setuptools", "pip", "wheel"}:  # `pip freeze` omits them
                continue
            if version is None or not requirement.specifier.contains(version, prereleases=True):
                found.append(f"{name} needs {requirement}, but the lock has {version}")
    return found


@pytest.mark.skipif(os.environ.get("LOCK") == "", reason="the newest releases are installed")
def test_the_lock_is_whole(files):
    names, _ = pins(files["lock"])
    assert missing_pins(names) == []


@pytest.mark.skipif(os.environ.get("LOCK") == "", reason="the newest releases are installed")
def test_a_pin_that_another_package_needs_is_missed(files):
    names, _ = pins(files["lock"])
    del names["markupsafe"]
    assert any("jinja2" in problem.lower() for problem in missing_pins(names))


def test_importing_the_package_is_instant(root):
    import subprocess
    import sys

    code = "import sys, helpers; sys.exit(bool({'numpy', 'torch', 'yaml'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=root).returncode == 0


def test_the_science_does_not_import_the_machinery(root):
    for path in (root / "helpers").rglob("*.py"):
        inside = path.relative_to(root / "helpers")
        if inside.parts[0] not in {"book", "__main__.py"}:
            assert "helpers.book" not in path.read_text(encoding="utf-8"), inside
