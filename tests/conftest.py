"""What several folders of tests share. One browser: two of Playwright's loops go in no process."""

import os

import chromium
import psutil
import pytest
from execution.leaving import below
from execution.watch import Watch, stalled_after

pytest_plugins = ["tests.long_runs"]

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


@pytest.fixture
def patient():
    """Contexts made while it is there wait as long as anything gets on: no clock ends them.

    Where nothing does (see `execution.watch`), the browser is ended, and what waits for it fails.
    """
    watch = Watch(_end_browser, stalled_after())
    watch.start()
    yield lambda context: context.set_default_timeout(0)
    watch.stop()


def _end_browser() -> None:
    for process in below():
        try:
            if "chrom" in process.name():
                process.kill()
        except psutil.Error:  # it ended by itself
            continue
