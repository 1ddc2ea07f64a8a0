"""Run a command that leaves nothing behind: ``python book/supervise.py COMMAND ...``.

Whatever ends it (its own end, a signal, the end of who started us by whatever means), everything
that it started ends as well, in whichever session or process group that is by then.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress

from execution.leaving import adopt_orphans, end_all_below

from rankbook.core.parent_death import die_with_parent

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE = 30  # seconds from a signal to the end of a command that does not heed it


def main(command: list[str]) -> int:
    """Run `command`; return its exit code, 128 and more where a signal ended it."""
    parent = os.getppid()
    adopt_orphans()
    child = subprocess.Popen(command, process_group=0)  # a Ctrl-C comes once, from us
    late = False

    def pass_on(number: int, _frame) -> None:
        nonlocal late
        with suppress(ProcessLookupError):  # it has ended this moment
            if child.returncode is None:
                os.kill(child.pid, signal.SIGKILL if late else number)
        late = True
        signal.alarm(GRACE)

    for number in (*SIGNALS, signal.SIGALRM):
        signal.signal(number, pass_on)
    die_with_parent(parent, signal.SIGTERM)
    while child.returncode is None:  # orphans that have ended are reaped, too: nobody else does
        pid, status = os.wait()
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
    code = child.returncode
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    end_all_below()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
