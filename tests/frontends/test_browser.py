"""JupyterLab and the classic notebook in a real browser: a reader runs, fails and stops cells."""

import re
import subprocess
import sys
import time
from contextlib import suppress

import nbformat
import pytest
from bookext.drawings import with_pictures
from playwright.sync_api import TimeoutError, expect

from rankbook.live.failure.report import INTERRUPTED
from tests.frontends.notebooks import CAUSE, FAIL, LOAD, SHOWN, START, SUM, write
from tests.waiting import SOON

SLEEP = """%%ranks
print("begun")
import time
while True:
    time.sleep(0.05)"""
CELLS = [f"{LOAD}\nprint('loaded')", START, SUM, FAIL, SLEEP, SUM]
PAGES = {"JupyterLab": "lab/tree", "classic notebook": "notebooks"}


@pytest.fixture
def server(traces, tmp_path):
    """The address of a Jupyter server on the loopback interface, which serves both front ends."""
    words = [
        "--no-browser",
        "--ip=127.0.0.1",
        "--port=0",
        "--allow-root",
        "--IdentityProvider.token=",
    ]
    settings = {name: str(tmp_path / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter", "lab", *words],
        cwd=tmp_path,
        env=traces.variables | settings | {"IPYTHONDIR": str(tmp_path / "ipython")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if found := re.search(r"(http://127\.0\.0\.1:\d+/)lab", line):
            break
    else:
        pytest.fail(f"the server did not start:\n{said}")
    yield found[1]
    process.terminate()
    # Its kernels go. Itself it sometimes stays: its loop has ended, but a thread waits for ever.
    traces.wait_gone(but=process.pid)
    process.kill()
    process.communicate()


class Page:
    """A notebook in the browser; cells are counted from 0."""

    def __init__(self, page):
        self._page = page
        page.set_default_timeout(SOON * 1000)
        # A busy server is late with its kernel, and Lab asks: a reader takes what is offered.
        page.add_locator_handler(
            page.locator(".jp-Dialog .jp-mod-accept"),
            lambda offered: offered.first.click(),
            no_wait_after=True,  # one that waits behind it comes next
        )
        self._cells = page.locator(".jp-Notebook .jp-CodeCell")
        page.wait_for_function("n => document.querySelectorAll('.jp-CodeCell').length >= n", arg=1)

    def begin(self, number: int) -> None:
        """Run a cell, as a reader does: whoever sees no sign of it at its prompt tries again."""
        prompt = self._cells.nth(number).locator(".jp-InputPrompt").first
        before, deadline = prompt.inner_text(), time.monotonic() + SOON
        while prompt.inner_text() == before:
            assert time.monotonic() < deadline, f"cell {number} does not begin"
            self._press(number)
            with suppress(AssertionError):
                expect(prompt).not_to_have_text(before, timeout=5000)

    def _press(self, number: int) -> None:
        self._cells.nth(number).locator(".cm-content").click()
        self._page.keyboard.press("Control+Enter")

    def begin_first(self, number: int, text: str) -> None:
        """Run a cell until it has run: a front end that has just come up forgets what is asked."""
        output = self._cells.nth(number).locator(".jp-OutputArea-output").filter(has_text=text)
        deadline = time.monotonic() + SOON
        while not output.count() and time.monotonic() < deadline:
            self._press(number)
            with suppress(TimeoutError):
                output.first.wait_for(state="attached", timeout=5000)
        assert output.count(), "the first cell does not run"

    def until(self, number: int, text: str) -> str:
        """Wait until a cell's output has `text`; return the output."""
        output = self._cells.nth(number).locator(".jp-OutputArea-output")
        output.filter(has_text=text).first.wait_for(state="attached")
        return "\n".join(output.all_inner_texts())

    def stop(self) -> None:
        """The stop button."""
        self._page.locator('[data-command="notebook:interrupt-kernel"]').first.click()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PAGES)
def test_a_reader_runs_fails_and_stops_cells(browser, server, tmp_path, name):
    write(tmp_path / "in.ipynb", CELLS)
    context = browser.new_context(viewport={"width": 1200, "height": 2000})
    tab = context.new_page()
    tab.goto(f"{server}{PAGES[name]}/in.ipynb")
    page = Page(tab)
    page.begin_first(0, "loaded")
    page.begin(1)
    page.until(1, "2 ranks after")
    page.begin(2)
    page.until(2, SHOWN[0])
    page.begin(3)
    failed = page.until(3, CAUSE[-1])
    assert all(line in failed for line in CAUSE), failed
    page.begin(4)
    page.until(4, "begun")
    page.stop()
    page.until(4, INTERRUPTED)
    page.begin(5)
    page.until(5, SHOWN[0])
    context.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PAGES)
def test_a_downloaded_notebook_shows_its_pictures(browser, server, tmp_path, name):
    """It is alone in a folder, and nobody has said that it can be trusted."""
    picture = "![two replicas](../../book/pictures/en/one_step.svg)"
    cells = [nbformat.v4.new_markdown_cell(with_pictures(f"Before.\n\n{picture}\n\nAfter."))]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "in.ipynb")
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(f"{server}{PAGES[name]}/in.ipynb")
    image = tab.locator(".jp-MarkdownOutput img")
    image.wait_for(state="visible", timeout=SOON * 1000)
    tab.wait_for_function("document.querySelector('.jp-MarkdownOutput img').naturalWidth > 300")
    assert image.get_attribute("alt") == "two replicas"
    context.close()
