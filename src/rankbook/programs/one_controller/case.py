"""One fault under one way to write a controller, in a process of its own; it prints a JSON line.

python -m rankbook.programs.one_controller.case careful raises
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rankbook.programs.one_controller.faults import sentences

STOP = 7.0  # seconds after which somebody presses Ctrl-C, where a rank hangs
NEXT = 15.0  # seconds that the next step may take
LATE = 1.0  # seconds in which Monarch may interrupt its controller over a failure left unhandled
SUM = [[2.0] * 4] * 2  # what a step gives where nothing is wrong


def main(way: str, fault: str) -> None:
    """Start, commit the fault, try the next step; print what happened."""
    with tempfile.TemporaryDirectory() as folder:
        case = asyncio.run(careful(folder, fault)) if way == "careful" else first(folder, fault)
        print(json.dumps({"fault": fault, "way": way} | case), flush=True)
        os._exit(0)  # whoever still hangs is ended by Monarch


def first(folder: str, fault: str) -> dict[str, Any]:
    """The first program, as it is: what it raises, and whether its ranks still work."""
    from rankbook.programs.one_controller.first import First

    began = time.monotonic()
    ranks = First(store(folder, 1))
    assert ranks.step() == SUM
    case: dict[str, Any] = {"start": since(began)}
    began = time.monotonic()
    if fault == "hangs":
        stop = threading.Timer(STOP, os.kill, (os.getpid(), signal.SIGINT))
        stop.start()
    case |= {"said": said(lambda: ranks.step(fault)), "seconds": since(began), "next": False}
    with contextlib.suppress(KeyboardInterrupt):
        time.sleep(LATE)
    with contextlib.suppress(KeyboardInterrupt):
        case["next"] = works(lambda: list(ranks.ranks.step.call(None).get(NEXT).values()))
    return case


async def careful(folder: str, fault: str) -> dict[str, Any]:
    """The careful program: what it says, whether its ranks still work, and its repair."""
    from rankbook.programs.one_controller.careful import Careful

    began = time.monotonic()
    ranks = Careful()
    await ranks.start(store(folder, 1))
    assert await ranks.step() == SUM
    case: dict[str, Any] = {"start": since(began)}
    began, lines = time.monotonic(), []
    try:
        await ranks.step(fault)
    except RuntimeError as error:
        lines = str(error).splitlines()
    case |= {"said": lines, "seconds": since(began)}
    began = time.monotonic()
    case["repair"] = await ranks.repair(store(folder, 2))
    case["repaired"] = since(began)
    return case | {"next": await ranks.step() == SUM}


def said(step: Callable[[], Any]) -> list[str]:
    """The last sentence of what a step raises, with the kind of error."""
    try:
        return [f"no error: {step()}"]
    except (Exception, KeyboardInterrupt) as error:
        last = sentences(str(error).splitlines() or [""])[-1]
        return [f"{type(error).__name__}: {last}".removesuffix(": ")]


def works(step: Callable[[], Any]) -> bool:
    """Whether a step gives the right sums."""
    try:
        return step() == SUM
    except Exception:  # whatever it is
        return False


def store(folder: str, number: int) -> str:
    """A file by which a group finds itself."""
    return str(Path(folder, f"store{number}"))


def since(began: float) -> float:
    """Seconds."""
    return round(time.monotonic() - began, 3)


if __name__ == "__main__":
    main(*sys.argv[1:])
