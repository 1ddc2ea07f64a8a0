"""How a rank of a launch tells what went wrong, and on which line of the cell."""

import faulthandler
import json
import os
import re
import signal
import time
import traceback
from contextlib import contextmanager, suppress
from pathlib import Path

from rankbook.live.failure import native
from rankbook.live.failure.place import of_traceback
from rankbook.live.screen.readable import readable
from rankbook.live.torchrun import place, witness

ENDING = (signal.SIGTERM, signal.SIGINT)  # what torchrun ends workers with
CALL_WRAPPERS = ("wrapper", "_fn", "inner", "__call__", "_wrapped_call_impl", "_call_impl")


def record_where_signals_hit(path: Path) -> None:
    """Let SIGTERM, SIGINT and crashes leave this process's Python stack in `path`.

    The signals go on to do what they do otherwise. This works where a Python handler would not:
    in a collective that never returns.
    """
    path.parent.mkdir(exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    faulthandler.enable(file)
    for signum in ENDING:
        faulthandler.register(signum, file, chain=True)


@contextmanager
def in_peace():
    """Within it SIGTERM and SIGINT do nothing; after it they end the process without a word."""
    for signum in ENDING:
        faulthandler.unregister(signum)
        signal.signal(signum, signal.SIG_IGN)
    yield
    for signum in ENDING:
        signal.signal(signum, signal.SIG_DFL)


def where(path: Path, cell: Path) -> dict:
    """What `record_where_signals_hit` left: {"line": cell line or None, "call": "all_reduce"}."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return {"line": None, "call": ""}
    for thread in reversed(text.split("\n\n")):  # the main thread stands last
        called = ""
        for file, line, name in re.findall(r'File "(.+)", line (\d+) in (.+)', thread):
            if file == str(cell):
                return {"line": int(line), "call": called}
            called = called if name in CALL_WRAPPERS else name  # innermost first
    return {"line": None, "call": ""}


def describe(error: BaseException, cell: str) -> dict:
    """`error`, raised in the file `cell`, as a note for the notebook.

    "type", "message", "traceback" as the reader's; "time" of the failure, in seconds since the
    epoch; "call", of what the error came out; "calls", the collectives up to it; "evidence" of who
    raised it (`failure.native`).
    """
    failed_at = time.time()
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename != cell:
        step = step.tb_next  # the frames that started the cell
    steps = of_traceback(step)
    call = place.call(steps, cell)
    if call.op == "backward":  # what failed in it counts as done
        issued = [entry for entry in witness.collectives() if place.in_backward(entry)]
        call = place.call(steps, cell, issued[-1:])
    formatted = traceback.TracebackException(type(error), error, step, compact=True)
    return {
        "type": type(error).__name__,
        "message": native.text_of(error),
        "call": call.as_dict(),
        "calls": witness.calls(cell),
        "evidence": native.evidence(error),
        "traceback": readable("".join(formatted.format()), cell),
        "time": failed_at,
    }


def tell_agent(report: dict) -> None:
    """Write the error file that torchrun's agent reads, in the form its own `record` uses."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    message = {
        "message": f"{report['type']}: {report['message']}",
        "extraInfo": {"py_callstack": report["traceback"], "timestamp": str(int(report["time"]))},
    }
    if path:
        with suppress(OSError):
            Path(path).write_text(json.dumps({"message": message}), encoding="utf-8")
