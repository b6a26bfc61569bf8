"""Turn the staged tree into HTML with Jupyter Book, without a network."""

import os
import re
import subprocess
import sys
from pathlib import Path

from helpers.book.errors import BookError
from helpers.book.files import fresh_folder
from helpers.book.paths import Book

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def build(book: Book) -> Path:
    """Build the site and return the folder that holds it. Every warning is an error.

    Raises:
        BookError: Jupyter Book failed or warned; the message holds what it said.
    """
    fresh_folder(book.site)
    # absolute paths: a relative table of contents would be looked up in the source folder
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build"]
    command += [str(book.stage), "--path-output", str(book.site)]
    command += ["--config", str(book.root / "_config.yml"), "--toc", str(book.root / "_toc.yml")]
    command += ["-W", "-n", "--keep-going", "--all"]
    done = subprocess.run(
        command,
        cwd=book.build,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "NO_COLOR": "1", "PYTHONWARNINGS": "ignore"},
    )
    text = COLOUR.sub("", done.stdout)
    log = book.build / "site.log"
    log.write_text(text, encoding="utf-8")
    html = book.site / "_build" / "html"
    said = [line for line in text.splitlines() if "WARNING" in line or "ERROR" in line]
    if done.returncode or not (html / "index.html").is_file():
        tail = said or text.splitlines()[-15:]
        raise BookError(
            "The site was not built. Jupyter Book said:\n  "
            + "\n  ".join(line.replace(f"{book.stage}/", "") for line in tail[:40])
            + f"\nAll of it is in {log}."
        )
    return html
