"""A reader without the repository: the setup cell installs it, and leaves their torch alone.

Needs a network and some minutes, so it is not part of ``make test``: run ``make install-check``.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import ROOT

pytestmark = pytest.mark.install
CHAPTERS = sorted((ROOT / "notebooks").glob("*.ipynb"))
KEPT = ("torch", "numpy")


def run(*command, **options):
    """Run a command; its output is part of the message where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{command} failed:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def pinned(name):
    """The tested version of a package."""
    lock = (ROOT / "requirements.lock").read_text()
    return re.search(rf"^{name}==(\S+)", lock, re.MULTILINE)[1]


def code(notebook):
    """The code cells of a notebook, as (id, source)."""
    cells = json.loads(notebook.read_text())["cells"]
    return [(c["id"], "".join(c["source"])) for c in cells if c["cell_type"] == "code"]


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A new environment that has a torch and a numpy, and nothing of ours."""
    folder = tmp_path_factory.mktemp("elsewhere")
    run(sys.executable, "-m", "venv", folder / "env")
    python = folder / "env" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", *(f"{name}=={pinned(name)}" for name in KEPT))
    return folder, python


def installed(python):
    """When and in which version each kept package was installed."""
    lines = [
        "import importlib.metadata as m, json, os",
        f"found = [m.distribution(name) for name in {KEPT!r}]",
        "print(json.dumps([[d.version, os.stat(d._path / 'RECORD').st_mtime_ns] for d in found]))",
    ]
    return json.loads(run(python, "-c", "\n".join(lines)))


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_the_setup_cell_installs_the_helpers_and_the_chapter_runs(chapter, elsewhere):
    folder, python = elsewhere
    before = installed(python)
    address = re.search(r'^REPOSITORY = "(.+)"', dict(code(chapter))["setup"], re.MULTILINE)[1]
    profile = yaml.safe_load((ROOT / "notebooks/profiles/quick.yml").read_text())
    lines = []
    for cell, source in code(chapter):
        lines.append(source.replace(address, f"file://{ROOT}"))
        if cell == "parameters":
            lines += [f"{k} = {v!r}" for k, v in profile[chapter.stem].items()]
            lines.append("profile = 'quick'")
    lines.append("import helpers; print('helpers from', helpers.__file__)")
    script = folder / "chapter.py"
    script.write_text("\n\n".join(lines))
    # the reader's own folder, and no trace of this checkout on the search path
    reader = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "BOOK_"))}
    said = run(python, script, cwd=folder, env=reader)
    where = Path(re.search(r"helpers from (.+)", said)[1])
    assert folder in where.parents, f"the helpers came from {where}, not from the installation"
    assert installed(python) == before, "the setup cell replaced torch or numpy"
