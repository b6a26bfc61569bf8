"""Show the finished site on this machine."""

import functools
import http.server
from collections.abc import Callable

from helpers.book.errors import BookError
from helpers.book.files import repair_swap
from helpers.book.paths import Book


def server(book: Book, profile: str = "laptop", port: int = 0) -> http.server.ThreadingHTTPServer:
    """A server of the published site on 127.0.0.1, bound but not yet serving.

    Args:
        port: 0 takes any free port.

    Raises:
        BookError: there is no site, or the port is taken.
    """
    folder = book.published(profile)
    repair_swap(folder)
    if not (folder / "index.html").is_file():
        raise BookError(f"There is no site in {folder}. Make it with: make book")
    handler = functools.partial(_Quiet, directory=str(folder))
    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise BookError(
            f"Port {port} cannot be used: {error.strerror}. Name another one with --port, or "
            "leave the option out."
        ) from error


def serve(
    book: Book, profile: str = "laptop", port: int | None = None, say: Callable[[str], None] = print
) -> None:
    """Serve until interrupted. Without a ``port``, 8000 is tried first, then any free one."""
    try:
        site = server(book, profile, 8000 if port is None else port)
    except BookError:
        if port is not None or not book.published(profile).is_dir():
            raise
        site = server(book, profile)
    with site:
        say(f"The site is at http://127.0.0.1:{site.server_port}/  (stop with Ctrl-C)")
        try:
            site.serve_forever()
        except KeyboardInterrupt:
            say("Stopped.")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Say nothing about each request."""
