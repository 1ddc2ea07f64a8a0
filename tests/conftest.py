"""What several folders of tests share. One browser: two of Playwright's loops go in no process."""

import os

import chromium
import pytest

ARGUMENTS = [*chromium.ARGUMENTS, "--disable-background-networking"]
# No other host can be reached. A Playwright route that stops requests would switch the cache off.
ARGUMENTS += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]


@pytest.fixture(scope="session")
def browser():
    """Chromium. Without one the tests are skipped, under CI=true they fail."""
    program = chromium.program()
    if program is None:
        reason = f"no Chromium on the PATH ({', '.join(chromium.NAMES)})"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield found
        found.close()
