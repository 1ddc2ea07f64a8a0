"""The built book, a web server for it on the loopback interface, and a real browser."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
# No other host can be reached. A Playwright route that stops requests would switch the cache off.
ARGUMENTS += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
OURS = ("file:", "data:", "blob:", "about:")


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built book; what did not change since the last build is not built again."""
    build = [sys.executable, str(ROOT / "book" / "build.py")]
    done = subprocess.run(build, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, f"the book does not build:\n{done.stdout}\n{done.stderr}"
    return ROOT / "_build" / "html"


@pytest.fixture(scope="session")
def pages(site) -> list[str]:
    """Every page of both languages, as a path below the site."""
    found = (path.relative_to(site) for path in site.rglob("*.html"))
    return sorted(str(p) for p in found if not {"_static", "_modules"} & set(p.parts))


@pytest.fixture(scope="session")
def text_pages(pages) -> list[str]:
    """The pages a reader reads: front pages, chapters, reference."""
    return [page for page in pages if "/book/" in page or "/chapters/" in page]


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


@pytest.fixture(scope="session")
def browser():
    """Chromium. Without one the tests are skipped, under CI=true they fail."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        reason = f"no Chromium on the PATH ({', '.join(CHROMIUM)})"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def visit(browser, address):
    """``visit(path, **context options)`` opens a page; at the end nothing may have gone wrong.

    Wrong are: a request to another host, one that fails, an error in the console or in a script.
    """
    contexts, wrong = [], []

    def look(request):
        if not request.url.startswith((address, *OURS)):
            wrong.append(f"foreign request: {request.url}")

    def open_page(path: str, **options):
        context = browser.new_context(**options)
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
