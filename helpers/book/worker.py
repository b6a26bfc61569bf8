"""One chapter, executed by papermill in a process of its own: ``python -m helpers.book.worker``.

The parent (:mod:`helpers.book.execute`) watches this process and may kill it. It therefore learns
everything from files: ``progress.json`` names the cell that runs now, ``result.json`` says how it
ended, and papermill saves the notebook before and after every cell.
"""

import json
import os
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

# A checker of web addresses that compiles its grammar for over a second when it is imported, in
# every chapter's process. jsonschema does without it, and notebooks hold no such field.
sys.modules.setdefault("rfc3987_syntax", None)

import nbformat
import papermill
from nbclient.exceptions import DeadKernelError
from papermill.engines import NBClientEngine, papermill_engines
from papermill.exceptions import PapermillExecutionError
from papermill.execute import remove_error_markers

from helpers.book.chapters import first_line
from helpers.book.files import write_json

ENGINE = "book"


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Execute the notebook that ``spec`` names and say how it ended.

    Args:
        spec: ``source``, ``output``, ``progress`` (paths), ``cwd``, ``parameters``, and ``path``,
            the kernel's module search path.

    Returns:
        ``ended`` is ``"done"``, ``"error"`` (a cell raised), ``"died"`` (the kernel is gone) or
        ``"broken"`` (no kernel could run it); ``error`` is the message.
    """
    os.environ["PYTHONPATH"] = spec["path"]
    papermill_engines.register(ENGINE, _engine(Path(spec["progress"])))
    try:
        papermill.execute_notebook(
            spec["source"],
            spec["output"],
            parameters=spec["parameters"],
            engine_name=ENGINE,
            kernel_name="python3",
            cwd=spec["cwd"],
            progress_bar=False,
            autosave_cell_every=10,
        )
    except PapermillExecutionError as error:
        # papermill also raises for an error that the author expects and tagged `raises-exception`
        if _drop_markers(Path(spec["output"])):
            return {"ended": "error", "error": f"{error.ename}: {error.evalue}"}
    except DeadKernelError as error:
        return {"ended": "died", "error": str(error)}
    except Exception as error:  # a kernel that does not start, a full disk: reported, not guessed
        return {"ended": "broken", "error": f"{type(error).__name__}: {error}"}
    return {"ended": "done", "error": ""}


def _engine(progress: Path) -> type[NBClientEngine]:
    class Told(NBClientEngine):
        """papermill's own engine, which also says which cell begins."""

        @classmethod
        def execute_managed_notebook(cls, nb_man, kernel_name, **options):
            cells, begin = nb_man.nb.cells, nb_man.cell_start

            def cell_start(cell, cell_index=None, **more):
                here = {"index": cell_index + 1, "of": len(cells), "id": cell.get("id", "?")}
                write_json(progress, {**here, "line": first_line(cell.source)})
                return begin(cell, cell_index, **more)

            nb_man.cell_start = cell_start
            return super().execute_managed_notebook(nb_man, kernel_name, **options)

    return Told


def _drop_markers(output: Path) -> bool:
    """Take out papermill's error banners; True where a cell failed without being tagged for it."""
    notebook = remove_error_markers(nbformat.read(output, as_version=4))
    nbformat.write(notebook, output)
    return any(c.metadata.get("papermill", {}).get("exception") for c in notebook.cells)


def _leave_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)  # the kernel sees this process go and ends itself


def main() -> None:
    """Read the order from the file named on the command line, carry it out, write the result."""
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    threading.Thread(target=_leave_with_parent, args=(spec["parent"],), daemon=True).start()
    result = run(spec)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    result["cpu_seconds"] = sum(u.ru_utime + u.ru_stime for u in used)
    write_json(Path(spec["result"]), result)


if __name__ == "__main__":
    main()
