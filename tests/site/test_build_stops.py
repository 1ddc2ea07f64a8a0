"""Chapters that stop, die or stand still, in a small book: there is a book all the same."""

import re

import pytest

from tests.site.small_book import PART, build, executed, page, write_cells, write_chapter

ON_PURPOSE = """import subprocess, sys
wrong = "raise AttributeError(\\"Can't get attribute 'worker'\\")"
subprocess.run([sys.executable, "-c", wrong])
raise ValueError("on purpose")"""


def test_a_chapter_that_stops_is_shown_up_to_there(book):
    """A book all the same: with a mark, a list at the end, and exit status 1, every time."""
    write_cells(book, {"before": "print(6 * 7)", "wrong": "raise ValueError('no rank here')",
                       "after": "print(6 * 9)"})  # fmt: skip
    write_chapter(book, PART, "02_other")
    for others in (["02_other"], []):  # it is tried although the first one fails, and kept
        failed = build(book)
        assert sorted(executed(failed)) == ["01_part", *others]
        assert failed.returncode == 1
        assert "1 page stopped on this machine" in failed.stdout
        assert "01_part stopped in cell 'wrong'" in failed.stdout
        assert "  why: ValueError: no rank here\n  log: _build/logs/en-01_part.log" in failed.stdout
        assert re.search(r"^  what to do: .+", failed.stdout, re.MULTILINE)
        for language, mark in (("en", "This page stopped"), ("zh", "本页没有运行完")):
            shown = page(book, language)
            assert re.search(f"{mark}.*>wrong<.*no rank here", shown, re.DOTALL), shown
            assert ">42\n" in shown and ">54\n" not in shown
            assert "Last verified" not in shown and "最近一次验证" not in shown
    write_cells(book, {"before": "print(6 * 7)"})
    mended = build(book)
    assert mended.returncode == 0 and "stopped" not in mended.stdout
    assert "stopped" not in page(book, "en")


@pytest.mark.long
def test_a_chapter_whose_process_dies_is_tried_once_more(book):
    write_cells(book, {"first": "print(1)", "dies": "import os\nos.kill(os.getpid(), 9)"})
    failed = build(book)
    assert failed.returncode == 1
    assert "01_part stopped in cell 'dies' (tried twice)" in failed.stdout
    assert "the notebook's kernel ended" in failed.stdout
    once = book / "once"
    write_cells(
        book,
        {
            "dies": f"""import os, pathlib
if not pathlib.Path({str(once)!r}).exists():
    pathlib.Path({str(once)!r}).touch()
    os.kill(os.getpid(), 9)
print("alive")"""
        },
    )
    done = build(book)
    assert done.returncode == 0, done.stdout + done.stderr
    assert executed(done) == ["01_part"] and "alive" in page(book, "zh")


@pytest.mark.long
def test_what_does_not_get_on_is_ended_and_what_does_is_not(book):
    """By no clock: the second cell works for longer than the first one waits."""
    write_cells(book, {"waits": "import time\ntime.sleep(3600)"})
    works = "import time\nuntil = time.process_time() + 16\nwhile time.process_time() < until: pass"
    write_chapter(book, works, "02_other")
    done = build(book, RANKBOOK_STALLED_AFTER="12")
    assert done.returncode == 1
    assert "01_part stopped in cell 'waits'" in done.stdout and "02_other: " in done.stdout
    assert "nothing in it got on for 12 s" in done.stdout
    assert "RANKBOOK_STALLED_AFTER=1800 make book" in done.stdout
    assert "02_other stopped" not in done.stdout
    wrong = build(book, RANKBOOK_STALLED_AFTER="soon")
    assert "RANKBOOK_STALLED_AFTER=soon is no number of seconds" in wrong.stdout + wrong.stderr


@pytest.mark.long
def test_what_a_chapter_shows_on_purpose_is_no_error_of_the_build(book):
    write_chapter(book, ON_PURPOSE, tags=["raises-exception"])
    done = build(book)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Error" not in done.stdout + done.stderr
    assert "on purpose" in page(book, "en")
