"""IPython in a terminal: a cell is typed, Ctrl-C reaches all of the terminal's processes."""

import sys

import pexpect
import pytest

from rankbook.live.failure.report import INTERRUPTED
from tests.frontends.notebooks import CAUSE, FAIL, LAUNCH, LOAD, SHOWN, START, SUM
from tests.live.kernel import COLOUR
from tests.waiting import SOON

PROMPT = r"In \[\d+\]: "
SLEEP = """%%ranks
print("begun")
import time
while True: time.sleep(0.05)"""


class Terminal:
    """IPython on a terminal of its own."""

    def __init__(self, traces):
        words = ["-m", "IPython", "--no-banner", "--simple-prompt", "--no-confirm-exit"]
        self._child = pexpect.spawn(
            sys.executable, words, env=traces.variables, encoding="utf-8", timeout=SOON, echo=False
        )
        self._child.expect(PROMPT)

    def type(self, cell: str) -> None:
        """Type a cell; two empty lines end one of many lines."""
        end = ["", ""] if cell.startswith("%%") else []
        for line in [*cell.split("\n"), *end]:
            self._child.sendline(line)

    def until(self, pattern: str) -> str:
        """What is shown until a pattern is."""
        self._child.expect(pattern)
        return COLOUR.sub("", self._child.before).replace("\r\n", "\n")

    def run(self, cell: str) -> str:
        """Type a cell; return what it shows."""
        self.type(cell)
        return self.until(PROMPT)

    def interrupt(self) -> None:
        """Ctrl-C."""
        self._child.sendintr()

    def leave(self) -> None:
        """Ctrl-D."""
        self._child.sendeof()
        self._child.expect(pexpect.EOF)
        self._child.close()


@pytest.fixture
def terminal(traces):
    """A terminal that has ranks."""
    terminal = Terminal(traces)
    terminal.run(LOAD)
    assert "2 ranks after" in terminal.run(START)
    return terminal


def test_ranks_in_a_terminal(terminal):
    assert SHOWN[0] in terminal.run(SUM)
    assert SHOWN[1] in terminal.run(LAUNCH)
    failed = terminal.run(FAIL)
    assert all(line in failed for line in CAUSE), failed
    terminal.type(SLEEP)
    terminal.until("begun")
    terminal.interrupt()
    assert INTERRUPTED in terminal.until(PROMPT)
    assert SHOWN[0] in terminal.run(SUM)
    terminal.leave()  # the ranks, that nobody stopped, end as well
