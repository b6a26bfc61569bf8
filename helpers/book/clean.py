"""Whether a chapter ran cleanly: only what shows no unexpected error or warning is used."""

import nbformat

from helpers.book.chapters import first_line


def notebook_problems(notebook: nbformat.NotebookNode, name: str) -> list[str]:
    """Errors and warnings in the outputs of an executed chapter.

    A cell may say ``raises-exception`` or ``expect-stderr`` in its tags; then that is expected of
    this cell, and its absence is a problem too.
    """
    found = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        tags = cell.metadata.get("tags", [])
        kinds = {o.output_type for o in cell.outputs}
        kinds |= {o.name for o in cell.outputs if o.output_type == "stream"}
        for kind, tag, what in (
            ("error", "raises-exception", "an error"),
            ("stderr", "expect-stderr", "a warning or other text on stderr"),
        ):
            if (kind in kinds) != (tag in tags):
                shows = "shows" if kind in kinds else f"is tagged `{tag}` but does not show"
                here = f"{name}: cell {cell.get('id', '?')} (`{first_line(cell.source)}`)"
                found.append(f"{here} {shows} {what}{_text(cell, kind)}")
    return found


def _text(cell: nbformat.NotebookNode, kind: str) -> str:
    for output in cell.outputs:
        if kind == "error" and output.output_type == "error":
            return f": {output.ename}: {output.evalue}"[:200]
        if kind == "stderr" and output.get("name") == "stderr":
            return f": {output.text.strip()}"[:200]
    return ""
