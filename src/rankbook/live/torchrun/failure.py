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

from rankbook.live.readable import readable

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


def where(path: Path, cell: str) -> dict:
    """What `record_where_signals_hit` left: {"line": cell line or None, "call": "all_reduce"}."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return {"line": None, "call": ""}
    for thread in reversed(text.split("\n\n")):  # the main thread stands last
        called = ""
        for file, line, name in re.findall(r'File "(.+)", line (\d+) in (.+)', thread):
            if file == cell:
                return {"line": int(line), "call": called}
            called = called if name in CALL_WRAPPERS else name  # innermost first
    return {"line": None, "call": ""}


def describe(error: BaseException, cell: str) -> dict:
    """`error`, raised in the file `cell`: type, message, cell line, traceback as the reader's."""
    step = error.__traceback__
    while step is not None and step.tb_frame.f_code.co_filename != cell:
        step = step.tb_next  # the frames that started the cell
    line, call = None, ""
    inner = step
    while inner is not None:
        name = inner.tb_frame.f_code.co_name
        if inner.tb_frame.f_code.co_filename == cell:
            line, call = inner.tb_lineno, ""
        elif not call and name not in CALL_WRAPPERS:
            call = name
        inner = inner.tb_next
    text = "".join(traceback.TracebackException(type(error), error, step, compact=True).format())
    return {
        "type": type(error).__name__,
        "message": str(error),
        "line": line,
        "call": call,
        "traceback": readable(text, cell),
        "time": time.time(),
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
