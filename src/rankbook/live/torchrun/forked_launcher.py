"""Forks one launch's agent and workers, and ends what is left when the agent ends."""

import atexit
import gc
import json
import os
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from rankbook.core.parent_death import die_with_parent
from rankbook.live.torchrun import agent, worker
from rankbook.live.torchrun.forked_workers import ForkedWorkers, install
from rankbook.live.torchrun.notes import read_note

MESSAGE = 1 << 18  # bytes: a worker's arguments and environment


class Launcher:
    """One launch, in a process of its own. `notebook` hears of the agent's start and end."""

    def __init__(self, directory: Path, notebook: socket.socket, fork_server: int):
        os.setsid()
        die_with_parent(fork_server, signal.SIGTERM)
        self._directory, self._notebook = directory, notebook
        self._request = read_note(directory / "request.json")
        self._to_agent, self._agent_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._signals, self._wake = socket.socketpair()
        for end in (self._signals, self._wake):
            end.setblocking(False)
        for signum in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(signum, lambda *_: None)  # noticed in `serve`, by the byte it leaves
        signal.set_wakeup_fd(self._wake.fileno())
        self._agent = 0
        self._workers: set[int] = set()

    def serve(self) -> Callable[[], Any]:
        """Until the agent ends. Returns in the agent and the workers only: what they shall run."""
        run = self._fork_agent()
        if run is not None:
            return run
        self._notebook.send(json.dumps({"agent": self._agent}).encode())
        with selectors.DefaultSelector() as selector:
            for end in (self._signals, self._to_agent, self._notebook):
                selector.register(end, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                if self._notebook in ready:  # it sends nothing: it is gone, or wants an end
                    self._end_all()
                if self._signals in ready:
                    self._heed_signals()
                if self._to_agent in ready:
                    order, descriptors = read_order(self._to_agent)
                    if not order:
                        selector.unregister(self._to_agent)
                        continue
                    run = self._fork_worker(json.loads(order), descriptors)
                    if run is not None:
                        return run

    def _fork_agent(self) -> Callable[[], Any] | None:
        launcher = os.getpid()
        self._agent = os.fork()
        if self._agent:
            self._agent_end.close()
            return None
        self._begin_child(launcher, keep=self._agent_end)
        os.chdir(self._request["cwd"])
        _take_environment(self._request["environment"])
        for number, name in ((1, "agent.out"), (2, "agent.err")):
            file = os.open(self._directory / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, number)
            os.close(file)
        install(ForkedWorkers(self._agent_end))
        return lambda: _leave(agent.main(self._directory))

    def _fork_worker(self, order: dict, descriptors: list[int]) -> Callable[[], Any] | None:
        launcher = os.getpid()
        begun, begin = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._begin_child(launcher)
            for number, file in zip((1, 2), descriptors, strict=True):
                os.dup2(file, number)
            for file in (*descriptors, begun, begin):
                os.close(file)
            os.chdir(self._request["cwd"])
            _take_environment(order["environment"])
            _as_if_just_loaded()
            return lambda: _run_worker(order["arguments"])
        for file in (*descriptors, begin):
            os.close(file)
        os.read(begun, 1)  # it leads its own process group now: signals to the group reach it
        os.close(begun)
        self._workers.add(pid)
        with suppress(OSError):  # it was killed meanwhile: a signal says so
            self._to_agent.send(json.dumps({"pid": pid}).encode())
        return None

    def _begin_child(self, launcher: int, keep: socket.socket | None = None) -> None:
        signal.set_wakeup_fd(-1)
        for signum in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(signum, signal.SIG_DFL)
        os.setsid()
        die_with_parent(launcher)
        for end in (self._notebook, self._to_agent, self._agent_end, self._signals, self._wake):
            if end is not keep:
                end.close()

    def _heed_signals(self) -> None:
        if signal.SIGTERM in self._signals.recv(4096):  # the fork server is gone
            self._end_all()
        while (pid := self._ended_child()) is not None:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # what it started and left behind
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            if pid == self._agent:
                self._kill_workers()
                with suppress(OSError):
                    self._notebook.send(json.dumps({"exit": code}).encode())
                os._exit(0)
            self._workers.discard(pid)
            with suppress(OSError):
                self._to_agent.send(json.dumps({"ended": pid, "code": code}).encode())

    def _ended_child(self) -> int | None:
        """A child that has ended and is not yet forgotten, so that its number is still its own."""
        with suppress(ChildProcessError):
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return ended.si_pid if ended else None
        return None

    def _end_all(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._agent, signal.SIGKILL)
        self._kill_workers()
        os._exit(1)

    def _kill_workers(self) -> None:
        for pid in self._workers:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)


def read_order(agent: socket.socket) -> tuple[bytes, list[int]]:
    """What the agent wants next, with the descriptors that came along; empty where it is gone."""
    with suppress(ConnectionResetError):  # killed before it had read what it was told last
        order, descriptors, _, _ = socket.recv_fds(agent, MESSAGE, 2)
        return order, descriptors
    return b"", []


def _take_environment(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _as_if_just_loaded() -> None:
    """What is torch's own in each process, and numpy's: random numbers, and a pool of threads.

    Every rank draws numbers of its own; Python's `random` sees to it by itself. A fork leaves torch
    a pool whose threads are gone. The first thread to use it makes another
    (``caffe2/utils/threadpool/pthreadpool-cpp.cc``), and a second one at the same moment, such as
    another of autograd's, would find none and abort: "Invalid thread pool!".
    """
    torch = sys.modules["torch"]
    torch.seed()
    torch.set_num_threads(torch.get_num_threads())
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def _run_worker(arguments: list[str]) -> None:
    """Run the cell, then end the process as Python would, but for what `_leave` says."""
    try:
        code = worker.main(arguments)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if code and code is not leaving.code:
            print(leaving.code, file=sys.stderr)  # sys.exit("why")
    # as the interpreter does, which tells nobody how: it waits for the program's threads
    threading._shutdown()  # pyrefly: ignore[missing-attribute]
    atexit._run_exitfuncs()
    sys.modules["__main__"].__dict__.clear()  # files that were left open are written
    gc.collect()
    _leave(code)


def _leave(code: int) -> None:
    """End this process without taking the interpreter apart, as multiprocessing's children do.

    That would touch every object of torch, and so copy the pages that all forks share: a third of
    a second of processor time for each.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
