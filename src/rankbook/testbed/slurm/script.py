"""A command that runs to its end or to a deadline, its output shown as it comes."""

import codecs
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

CHUNK = 1 << 16  # bytes
POLITE_SECONDS = 5.0


class ScriptFailed(RuntimeError):
    """A script failed or took too long; `output` is what it said before."""

    def __init__(self, why: str, output: str):
        super().__init__(f"{why}; it said:\n{output.rstrip()}" if output.strip() else why)
        self.why, self.output = why, output

    def _render_traceback_(self):  # a notebook has shown the output already
        return [f"{type(self).__name__}: {self.why}"]


def run(
    command: list[str], environment: dict[str, str], seconds: float, show: Callable[[str], object]
) -> str:
    """Run `command` and return its output, stdout and stderr as they came.

    show: called with each piece of the output. Raises ScriptFailed on a failure, and after
    `seconds`, when the command's processes have been ended. A process that it leaves in the
    background keeps running, and does not keep us.
    """
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            said, in_time = _follow(process, out.fileno(), seconds, show)
        finally:
            _end(process)
    if not in_time:
        raise ScriptFailed(f"the script had not ended after {seconds:g} s", said)
    if code := process.returncode:
        what = f"exit code {code}" if code > 0 else signal.Signals(-code).name
        raise ScriptFailed(f"the script failed with {what}", said)
    return said


def _follow(process: subprocess.Popen, out: int, seconds: float, show) -> tuple[str, bool]:
    """What the process said until it ended or the time was over, and whether it ended."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    said, read, deadline = "", 0, time.monotonic() + seconds
    while True:
        ended = process.poll() is not None  # before the last look at its output
        while new := os.pread(out, CHUNK, read):
            read += len(new)
            show(text := decode(new))
            said += text
        if ended or time.monotonic() > deadline:
            return said, ended
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)


def _end(process: subprocess.Popen) -> None:
    """End a command that still runs: politely first, so that srun ends its job.

    Its children are ended, not itself, so that it sees them go: a child without parent may stay,
    dead, for as long as this machine is up, and its namespaces with it.
    """
    for end in (psutil.Process.terminate, psutil.Process.kill):
        if process.poll() is not None:
            return
        for child in psutil.Process(process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                end(child)
        with suppress(subprocess.TimeoutExpired):
            process.wait(POLITE_SECONDS)
    process.kill()
    process.wait()
