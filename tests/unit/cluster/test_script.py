"""A command that runs to its end or to a deadline, without a cluster."""

import os
import time
from contextlib import suppress

import psutil
import pytest

from rankbook.cluster.script import ScriptFailed, run


def bash(script: str, seconds: float = 20.0, show=lambda text: None) -> str:
    return run(["bash", "-ec", script], dict(os.environ), seconds, show)


def test_both_streams_are_returned_and_shown_as_they_come():
    shown = []

    def show(text: str) -> None:
        shown.append((text, time.monotonic()))

    assert bash("echo a; echo b >&2; sleep 0.5; echo ü", show=show) == "a\nb\nü\n"
    assert "".join(text for text, _ in shown) == "a\nb\nü\n"
    assert shown[-1][1] - shown[0][1] > 0.3


def test_a_letter_is_not_cut():
    pieces = []
    said = bash(r"printf '\xc3'; sleep 0.3; printf '\xbc'", show=pieces.append)
    assert said == "ü" == "".join(pieces)


def test_what_stays_in_the_background_keeps_nobody_waiting():
    began = time.monotonic()
    pid = int(bash("sleep 600 & echo $!"))
    assert time.monotonic() - began < 10
    psutil.Process(pid).kill()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo a; exit 3", "the script failed with exit code 3; it said:\na"),
        ("echo a; false; echo b", "the script failed with exit code 1; it said:\na"),
        ("kill -KILL $$", "the script failed with SIGKILL"),
    ],
)
def test_a_failure_says_how_and_what_was_said_before(script, why):
    with pytest.raises(ScriptFailed) as error:
        bash(script)
    assert str(error.value) == why


def test_after_the_deadline_the_whole_tree_is_gone():
    shown = []
    with pytest.raises(ScriptFailed, match=r"had not ended after 1 s; it said:\n\d+"):
        bash("sleep 600 & echo $!; (sleep 600)", 1.0, shown.append)
    with suppress(psutil.NoSuchProcess):  # or dead, until the system has taken note
        assert psutil.Process(int("".join(shown))).status() == psutil.STATUS_ZOMBIE
