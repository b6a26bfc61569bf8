"""One browser for all checks of the site, and a way to open a page in it."""

import pytest

from tests.site import browser as tools


@pytest.fixture(scope="session")
def browser():
    if tools.executable() is None:
        reason = "No Chromium on this machine. On Debian: apt-get install chromium"
        if tools.required():
            pytest.fail(f"{reason} (SITE_CHECK_BROWSER=required)")
        pytest.skip(reason)
    with tools.chromium() as running:
        yield running


@pytest.fixture
def look(tmp_path, browser):
    """Opens a page given as text."""
    stack = []

    def opened(text, theme="light"):
        (tmp_path / "page.html").write_text(text, encoding="utf-8")
        server = tools.serve(tmp_path)
        stack.append(server)
        view = tools.look_at(browser, f"{server.__enter__()}/page.html", theme)
        stack.append(view)
        return view.__enter__()

    yield opened
    for context in reversed(stack):
        context.__exit__(None, None, None)
