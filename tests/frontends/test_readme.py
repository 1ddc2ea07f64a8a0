"""The READMEs of the magics: their cells run in a kernel, and show what the pages say they show."""

import re

import pytest

from rankbook.live.failure.report import INTERRUPTED
from tests.live.kernel import Notebook
from tests.live.report import STILL_WAITS
from tests.wheel.environment import ROOT

PAGES = {name: ROOT / "src" / "rankbook" / name for name in ("README.md", "README.zh.md")}
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def cells(name: str) -> list[tuple[str, str]]:
    """The cells of a page, each with the text that the page shows below it ("" if none)."""
    found, after = [], 0
    text = PAGES[name].read_text("utf-8")
    for block in BLOCK.finditer(text):
        if block[1] == "python":
            found.append((block[2], ""))
        elif found and text[after : block.start()].strip() == "":
            found[-1] = (found[-1][0], block[2])
        after = block.end()
    return found


def plain(text: str) -> str:
    """Without what is another time's or another machine's: seconds, where the ranks are."""
    text = re.sub(r"\d+\.\d s: .*", "SECONDS: WHERE", text)
    return re.sub(r"\n+", "\n", text).strip()


def test_both_pages_have_the_same_cells():
    english, chinese = map(cells, PAGES)
    assert len(english) == 6
    assert chinese == english


@pytest.fixture(scope="module")
def notebook():
    with Notebook() as notebook:
        yield notebook
        notebook.run("%ranks stop")


def test_the_cells_show_what_the_page_says(notebook):
    for code, shown in cells("README.md"):
        notebook.begin(code)
        if STILL_WAITS in shown:  # it hangs, says so, and is stopped
            for line in shown.splitlines():
                notebook.until(re.escape(line))
            notebook.interrupt()
            assert INTERRUPTED in notebook.finish().error
        else:
            result = notebook.finish()
            assert plain(result.text + result.error) == plain(shown), code
    assert notebook.run("_3.seen, _3.ranks[1].seen").text.strip() == "(2, 2)"
