"""Open pages of a local site in the system's Chromium, with every other host cut off."""

import functools
import http.server
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDE, NARROW = (1280, 900), (400, 860)
FLAGS = [
    "--headless",
    "--no-sandbox",  # a container's root user has no other way
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Even a request that slips past the page's route finds no host.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]


@dataclass
class Look:
    """A page as a reader sees it in one theme, and what happened while it loaded.

    `foreign` holds requests to other hosts (blocked), `errors` what the console, the page or the
    server complained about.
    """

    page: Page
    theme: str
    foreign: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def resize(self, size: tuple[int, int]) -> None:
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.page.wait_for_timeout(80)  # the layout settles


def executable() -> str | None:
    """Path of the Chromium to use, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def required() -> bool:
    """Whether a missing browser or site is a failure rather than a reason to skip."""
    return os.environ.get("SITE_CHECK_BROWSER") == "required"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve a folder on a free port of this machine; gives the address, without a final slash."""
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    path = executable()
    if path is None:
        raise RuntimeError("No Chromium found. On Debian: apt-get install chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def look_at(browser: Browser, address: str, theme: str = "light") -> Iterator[Look]:
    """Open an address in a theme, as the reader's own choice would, and wait until it is done."""
    own = urlsplit(address).netloc
    context = browser.new_context(
        viewport={"width": WIDE[0], "height": WIDE[1]},
        color_scheme=theme,  # type: ignore[arg-type]
        service_workers="block",
        reduced_motion="reduce",  # a sidebar that still slides is no fault of the page
    )
    choice = "".join(f"localStorage.setItem('{key}', '{theme}');" for key in ("theme", "mode"))
    context.add_init_script(f"try {{ {choice} }} catch (e) {{}}")
    look = Look(context.new_page(), theme)

    def gate(route):  # every request of the page passes here
        url = urlsplit(route.request.url)
        if url.netloc in (own, "") or url.scheme in ("data", "blob"):
            route.continue_()
        else:
            look.foreign.append(route.request.url)
            route.abort()

    def answered(response):
        if response.status >= 400:
            look.errors.append(f"{response.status} for {urlsplit(response.url).path}")

    def said(message):
        # A blocked or missing file has its own entry already.
        if message.type == "error" and "Failed to load resource" not in message.text:
            look.errors.append(f"console: {message.text}")

    context.route("**/*", gate)
    look.page.on("websocket", lambda socket: look.foreign.append(socket.url))
    look.page.on("console", said)
    look.page.on("pageerror", lambda error: look.errors.append(f"script: {error}"))
    look.page.on("response", answered)
    try:
        look.page.goto(address, wait_until="load")
        look.page.evaluate("() => document.fonts.ready")
        look.page.evaluate("() => globalThis.MathJax?.startup?.promise")
        look.page.wait_for_load_state("networkidle")
        yield look
    finally:
        context.close()
