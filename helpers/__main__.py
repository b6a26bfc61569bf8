"""``python -m helpers``: the command line of the book."""

import sys


def main() -> None:
    """Start the command line; say what to install when its packages are absent."""
    try:
        from helpers.book.cli import app
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "helpers":
            raise
        sys.exit(
            f"The command line needs the package {error.name!r}, which is not installed here. "
            "In a clone, run `make book`, which installs all; "
            "or run: pip install -c requirements.lock -e '.[book]'"
        )
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a terminal that lacks a letter must not end the run
            stream.reconfigure(errors="replace")
    app()


if __name__ == "__main__":
    main()
