"""The contact sheet: each picture of a page, in both languages and every view."""

import re
import shutil
import subprocess
import sys

import pytest

from tests.site.conftest import ROOT

pytestmark = pytest.mark.timeout(1800)  # the first test may have to build the book
SHEET = ROOT / "_build" / "contact-sheet"


def laid_out(*pages: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(ROOT / "book" / "contact_sheet.py"), *pages]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.usefixtures("site")
def test_a_row_holds_a_picture_in_six_views():
    shutil.rmtree(SHEET, ignore_errors=True)
    done = laid_out("24_bubble", "21_pipelines")
    assert done.returncode == 0, done.stdout + done.stderr
    text = (SHEET / "index.html").read_text("utf-8")
    assert re.findall("<h2>(.*?)</h2>", text) == ["21_pipelines", "24_bubble"]
    rows = text.split('<div class="row">')[1:]
    drawings = sum("\u4e00" <= letter <= "\u9fff" for letter in text)
    assert len(rows) >= 3 and drawings > 20  # the Chinese ones are described in Chinese
    for row in rows:
        names = re.findall('src="(.*?)"', row)
        assert [name.rsplit("-", 2)[1:] for name in names] == [
            [language, f"{view}.png"]
            for language in ("en", "zh")
            for view in ("desktop", "dark", "phone")
        ]
        assert all((SHEET / name).stat().st_size > 1000 for name in names)


@pytest.mark.usefixtures("site")
def test_a_page_that_is_not_there_is_one_sentence():
    done = laid_out("25_nothing")
    assert done.returncode == 1 and done.stdout.count("\n") == 1
    assert "no such page" in done.stdout
