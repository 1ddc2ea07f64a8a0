"""A rank of a launch says where it is while it hangs. Standard library only, until it is asked.

A thread of its own waits at a pipe, in the system: until somebody asks it costs nothing. It answers
also while the main thread is in a collective that never returns.
"""

import _thread
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from rankbook.live.failure.place import of_frame
from rankbook.live.torchrun import place
from rankbook.live.torchrun.notes import find_note, write_note

PIPES, ANSWERS = "pipes", "answers"  # folders of a launch; a file is named as the process
LAST = 20  # collectives of a rank that are looked at for where ranks parted
CLOSE = 1.0  # seconds that a rank which fails gives the others to say where they are


def listen(launch: Path, cell: str) -> None:
    """Answer questions from now on, of where this process is in the file `cell`."""
    pipe = launch / PIPES / str(os.getpid())
    with suppress(OSError):  # a file system without pipes: then nobody answers
        pipe.parent.mkdir(exist_ok=True)
        os.mkfifo(pipe, 0o600)
        questions = os.open(pipe, os.O_RDWR)  # for writing too: so that it never ends
        # Not by `threading`: a program that counts its threads does not count this one.
        _thread.start_new_thread(_serve, (questions, launch, cell))


def ask(launch: Path, pid: int) -> bool:
    """Ask the process `pid` where it is; False if it does not listen."""
    try:
        pipe = os.open(launch / PIPES / str(pid), os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return False
    with suppress(OSError):
        os.write(pipe, b"?")
    os.close(pipe)
    return True


def answer(launch: Path, pid: int, since: float = 0.0) -> dict | None:
    """The last answer of `pid`, if it is not older than `since` (seconds since the epoch)."""
    with suppress(OSError, ValueError):
        found = find_note(launch / ANSWERS / f"{pid}.json")
        return found if found and found["time"] >= since else None
    return None


def ask_the_others(launch: Path) -> None:
    """This process fails: have the others say where they are, before torchrun ends them."""
    with suppress(OSError):
        since, me = time.time(), os.getpid()
        others = {int(pipe.name) for pipe in (launch / PIPES).iterdir()} - {me}
        asked = [pid for pid in others if ask(launch, pid)]
        while asked and time.time() < since + CLOSE:
            time.sleep(0.01)
            asked = [pid for pid in asked if answer(launch, pid, since) is None]


def collectives() -> list:
    """The last collectives of this process (`autopsy.flight`), oldest first. Loads no torch."""
    dist = sys.modules.get("torch.distributed")
    initialized = getattr(dist, "is_initialized", None)
    if initialized is None or not initialized():
        return []
    from rankbook.autopsy.flight import recent_collectives

    return recent_collectives()


def calls(cell: str) -> list[dict]:
    """The last collectives of this process, for a note; those of groups that are gone, too."""
    with suppress(Exception):  # of any kind: this is not the program
        if getattr(sys.modules.get("torch.distributed"), "is_available", bool)():
            from rankbook.autopsy.flight import recent_collectives
            from rankbook.live.failure.parting import to_wire

            return to_wire(recent_collectives(LAST), cell)
    return []


def _serve(questions: int, launch: Path, cell: str) -> None:
    while os.read(questions, 1 << 10):  # several questions at once get one answer
        with suppress(Exception):  # of any kind: this is not the program
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            pending = [entry for entry in collectives() if not entry.done]
            call = place.call(of_frame(frame), cell, pending)
            about: dict = {"time": time.time(), "call": call.as_dict(), "children": _awaited(frame)}
            about["calls"] = calls(cell)
            about["agent_store"] = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
            # what the program has used, without what it takes to tell
            about["call"]["cpu"] = time.process_time() - time.thread_time()
            write_note(launch / ANSWERS / f"{os.getpid()}.json", about)


def _awaited(frame) -> list[int]:
    """The processes that the main thread waits for the end of, by multiprocessing."""
    names = [(step.file, step.name) for step in of_frame(frame)]
    files = ("/torch/multiprocessing/spawn.py", "/multiprocessing/process.py")
    if not any(file.endswith(files) and name == "join" for file, name in names):
        return []
    # `active_children` would also collect the ended ones, which is the main thread's to do
    children = list(vars(sys.modules["multiprocessing.process"])["_children"])
    return [child.pid for child in children if child.pid]
