"""A browser for the tests of the explorer."""

import pytest

from explorer_in_browser import CHROMIUM


@pytest.fixture(scope="module")  # not for the whole session: while it runs, no other test can start an event loop
def browser():
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()
