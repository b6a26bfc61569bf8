"""One browser for all checks of the site."""

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
