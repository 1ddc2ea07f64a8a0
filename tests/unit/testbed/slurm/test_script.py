"""A command that runs to its end or to a deadline, without a cluster."""

import os
from contextlib import suppress
from types import SimpleNamespace

import psutil
import pytest

from rankbook.testbed.slurm import script
from rankbook.testbed.slurm.script import ScriptFailed, run
from tests.waiting import SOON, until


def bash(words: str, seconds: float = SOON, show=lambda text: None) -> str:
    return run(["bash", "-ec", words], dict(os.environ), seconds, show)


def test_both_streams_are_returned_and_shown_as_they_come(tmp_path):
    shown = []

    def show(text: str) -> None:
        shown.append(text)
        if "b" in "".join(shown):
            (tmp_path / "seen").touch()  # what the script waits for

    said = bash(f"echo a; echo b >&2; until [ -e {tmp_path}/seen ]; do :; done; echo ü", show=show)
    assert said == "".join(shown) == "a\nb\nü\n"


def test_a_letter_is_not_cut(tmp_path):
    pieces = []

    def show(text: str) -> None:
        pieces.append(text)
        (tmp_path / "half").touch()

    wait = f"until [ -e {tmp_path}/half ]; do :; done"
    said = bash(rf"printf '\xc3'; {wait}; printf '\xbc'", show=show)
    assert said == "ü" and pieces == ["", "ü"]


def test_what_stays_in_the_background_keeps_nobody_waiting():
    pid = int(bash(f"sleep {4 * SOON} & echo $!"))  # waited for, it would be too late
    psutil.Process(pid).kill()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("echo a; exit 3", "the script failed with exit code 3; it said:\na"),
        ("echo a; false; echo b", "the script failed with exit code 1; it said:\na"),
        ("kill -KILL $$", "the script failed with SIGKILL"),
    ],
)
def test_a_failure_says_how_and_what_was_said_before(words, why):
    with pytest.raises(ScriptFailed) as error:
        bash(words)
    assert str(error.value) == why


def test_after_the_deadline_the_whole_tree_is_gone(monkeypatch):
    shown = []
    # the clock stands until the script has said what is looked for
    clock = SimpleNamespace(monotonic=lambda: 2.0 if "\n" in "".join(shown) else 0.0)
    monkeypatch.setattr(script, "time", clock)
    with pytest.raises(ScriptFailed, match=r"had not ended after 1 s; it said:\n\d+"):
        bash("sleep 600 & echo $!; (sleep 600)", 1.0, shown.append)
    with suppress(psutil.NoSuchProcess):  # or dead, until the system has taken note
        sleeper = psutil.Process(int("".join(shown)))
        until(lambda: sleeper.status() == psutil.STATUS_ZOMBIE)  # a signal takes a moment to arrive
