"""Ask for pages to be executed; the server starts with the first one that is asked for."""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import Queue

from execution.outcome import Failure, Outcome
from execution.watch import stalled_after

SERVER = Path(__file__).with_name("server.py")
WITH_MEMORY = "RANKBOOK_WITH_MEMORY"  # in the environment: look at the pages' memory as well
MANY = 3  # pages, for which it is worth to load what each would load for itself
TURNS = SERVER.parents[2] / "_build" / ".turns"  # of all pages of this checkout


class Client:
    """A server of pages, for any number of threads. Use it in a ``with``: its end ends all pages.

    environment: the pages'. pages: how many there will be; for a few, nothing is loaded beforehand.
    """

    def __init__(self, environment: Mapping[str, str], pages: int):
        self._environment = dict(environment)
        self._command = [sys.executable, str(SERVER), str(os.getpid()), *["warm"] * (pages >= MANY)]
        self._stall = stalled_after()
        self._process: subprocess.Popen | None = None
        self._ids = itertools.count()
        self._answers: dict[int, Queue] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> "Client":
        self._running()  # it ends with the thread that starts it, which is the caller's
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def execute(self, chapter: Path, log: Path) -> Outcome:
        """Execute the notebook `chapter`; `log` gets what its processes write beside its outputs.

        The outcome's `executed` is a temporary file, which is the caller's.
        """
        descriptor, executed = tempfile.mkstemp(suffix=".ipynb")
        os.close(descriptor)
        log.parent.mkdir(parents=True, exist_ok=True)
        request = {"chapter": str(chapter), "executed": executed, "log": str(log)}
        request |= {"turns": str(TURNS), "with_memory": WITH_MEMORY in self._environment}
        answer: Queue = Queue()
        with self._lock:
            number = next(self._ids)
            self._answers[number] = answer
            line = json.dumps(request | {"id": number, "stall": self._stall}) + "\n"
            pipe = self._running().stdin
            assert pipe is not None
            pipe.write(line.encode())
            pipe.flush()
        facts = answer.get()
        if "ended" in facts:
            reason = f"the process that executed it ended (status {facts['ended']})"
            Path(executed).write_text(chapter.read_text("utf-8"), "utf-8")
            return Outcome(executed, failure=Failure("died", "", reason))
        return Outcome.of(facts)

    def close(self) -> None:
        """End the server and everything below it."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()  # it then ends what is below it
            self._process.wait()
            self._process = None

    def _running(self) -> subprocess.Popen:
        if self._process is None or self._process.poll() is not None:  # it was killed
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=self._environment,
            )
            threading.Thread(target=self._read, args=[self._process], daemon=True).start()
        return self._process

    def _read(self, process: subprocess.Popen) -> None:
        for line in process.stdout or ():
            answer = json.loads(line)
            self._answers.pop(answer["id"]).put(answer["outcome"])
        code = process.wait()
        for waiting in list(self._answers.values()):
            waiting.put({"ended": code})
