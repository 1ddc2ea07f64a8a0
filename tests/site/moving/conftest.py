"""A figure that moves on a page of its own, read from files: the book need not be built."""

import pytest
from stills import bare_page


@pytest.fixture
def bare(browser, tmp_path, patient):
    """``bare(NAME, language, theme="light", **context options)`` opens a figure's own page.

    At the end nothing may have gone wrong: no error in the console or in a script, no request to
    anything but files.
    """
    contexts, wrong = [], []

    def open_page(name: str, language: str = "en", theme: str = "light", **options):
        path = tmp_path / f"{name}-{language}-{theme}.html"
        path.write_text(bare_page(name, language, theme), "utf-8")
        context = browser.new_context(**options)
        patient(context)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda m: m.type == "error" and wrong.append(f"console: {m.text}"))
        page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
        page.on("requestfailed", lambda r: wrong.append(f"failed: {r.url}"))
        page.on("request", lambda r: r.url.startswith("file:") or wrong.append(r.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong, "\n".join(wrong)


@pytest.fixture
def ask(bare):
    """``ask(NAME, [settings, ...])``: the strings that a reader sees, for each of the settings."""

    def shown(name: str, settings: list[dict]) -> list[dict[str, str]]:
        every = "([name, all]) => all.map((settings) => Moving.shown(name, settings))"
        return bare(name).evaluate(every, [name, settings])

    return shown
