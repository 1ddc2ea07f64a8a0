"""The built book, a web server for it on the loopback interface, and a real browser."""

import functools
import http.server
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from bookext import redirects

from tests.long_runs import seen_pages
from tests.site.small_book import book  # noqa: F401  a fixture

ROOT = Path(__file__).resolve().parents[2]
FEW = 12  # of so many pages one, where a test has a fast form
OURS = ("file:", "data:", "blob:", "about:")


def pytest_collection_modifyitems(items) -> None:
    """No clock ends a test of pages: a browser that stands still does, and so does a build."""
    for item in items:
        if item.path.is_relative_to(ROOT / "tests" / "site"):
            item.add_marker(pytest.mark.timeout(0))


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built book; what did not change since the last build is not built again."""
    build = [sys.executable, str(ROOT / "book" / "build.py")]
    done = subprocess.run(build, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"the book does not build:\n{done.stdout}\n{done.stderr}"
    return ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def pages(site) -> list[str]:
    """Every page of both languages, as a path below the site; those at old addresses are none."""
    moved = {f"{code}/{old}.html" for code in ("en", "zh") for old in redirects.addresses(code)}
    found = [path.relative_to(site) for path in site.rglob("*.html")]
    every = {str(path) for path in found if not {"_static", "_modules"} & set(path.parts)}
    assert every > moved, f"no page at {sorted(moved - every)}"
    return sorted(every - moved)


@pytest.fixture(scope="session")
def text_pages(pages) -> list[str]:
    """The pages a reader reads, front pages, chapters, reference: one for each source."""
    found = [page for page in pages if "/book/" in page or "/chapters/" in page]
    sources = [*ROOT.glob("chapters/*/*.ipynb"), *ROOT.glob("book/en/**/*.md")]
    sources += ROOT.glob("book/zh/**/*.md")
    names = [path.relative_to(ROOT).with_suffix(".html") for path in sources]
    assert found == sorted(f"{name.parts[1]}/{name}" for name in names)
    return found


@pytest.fixture(scope="session")
def english(text_pages) -> list[str]:
    """The English ones of them, of which there are some."""
    return some(page for page in text_pages if page.startswith("en/"))


@pytest.fixture(scope="session")
def chinese(text_pages) -> list[str]:
    """The Chinese ones of them, of which there are as many."""
    return some(page for page in text_pages if page.startswith("zh/"))


@pytest.fixture(scope="session")
def chapters(text_pages) -> list[str]:
    """The chapters in both languages, of which there are some."""
    return some(page for page in text_pages if "/chapters/" in page)


@pytest.fixture(params=["a few", pytest.param("every", marks=pytest.mark.long)])
def tour(request):
    """``tour(pages)``: those that a test goes to; in its fast form, a few.

    In its long form every one, but for those that it went to before and that have not changed.
    """
    file = request.path.relative_to(ROOT).as_posix()
    every = request.param == "every"

    def chosen(pages) -> list[str]:
        few, new = set(pages[::FEW]), set(pages) - set(seen_pages(file)) if every else set()
        return some(page for page in pages if page in few | new)

    return chosen


def some(pages) -> list[str]:
    """The pages as a list that is not empty: a loop over it has something to look at."""
    found = list(pages)
    assert found
    return found


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # a page that was left while it loaded


@pytest.fixture(scope="session")
def address(site):
    """``http://127.0.0.1:PORT/``, where the site is served while the tests run."""
    handler = functools.partial(Quiet, directory=str(site))
    with Server(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def visit(browser, address, patient):
    """``visit(path, **context options)`` opens a page; at the end nothing may have gone wrong.

    Wrong are: a request to another host, one that fails, an error in the console or in a script.
    """
    contexts, wrong = [], []

    def look(request):
        if not request.url.startswith((address, *OURS)):
            wrong.append(f"foreign request: {request.url}")

    def open_page(path: str, **options):
        context = browser.new_context(**options)
        patient(context)
        contexts.append(context)
        context.on("request", look)
        page = context.new_page()
        page.on("console", lambda m: m.type == "error" and wrong.append(f"console: {m.text}"))
        page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
        page.on("response", lambda r: r.status >= 400 and wrong.append(f"{r.status}: {r.url}"))
        page.goto(path if path.startswith("file:") else address + path)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong, "\n".join(wrong)
