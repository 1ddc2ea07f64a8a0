"""What the tests of ``%%torchrun`` share: a notebook with the magics, and parts of cells."""

import re
import time

import psutil

from tests.live.kernel import Notebook, Result
from tests.waiting import SOON

LOAD = "from rankbook.magics.torchrun import register; register(get_ipython())"

# Line 1 is the magic, these are lines 2 to 4: what a test adds begins on line 5.
GROUP = """import os, signal, sys, time, torch, torch.distributed as dist, rankbook
dist.init_process_group("gloo"); rank = dist.get_rank(); world_size = dist.get_world_size()
ones = torch.ones(2)
"""
# `say_when_in("recv")` prints "go" once the main thread has come into a function of that name.
SAY_WHEN_IN = """import threading, traceback; main = threading.get_ident()
def functions():
    stack = traceback.walk_stack(sys._current_frames()[main])
    return [frame.f_code.co_name for frame, _ in stack]
def say_when_in(name):
    def say():
        while name not in functions(): time.sleep(0.01)
        print("go")
    threading.Thread(target=say, daemon=True).start()
"""


def open_notebook(**options) -> Notebook:
    """A notebook with the magics loaded; use it in a ``with``."""
    notebook = Notebook(**options)
    result = notebook.run(LOAD)
    assert not result.error, result.error
    return notebook


def launch(notebook: Notebook, options: str, program: str, timeout: float = SOON) -> Result:
    """Run a ``%%torchrun`` cell to its end."""
    return notebook.run(f"%%torchrun {options}\n{program}", timeout)


def left_of_launches(notebook: Notebook, seconds: float = SOON) -> list[psutil.Process]:
    """The processes of launches that run after at most `seconds`; the fork server may stay."""
    deadline = time.monotonic() + seconds
    while (left := launched(notebook)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def said(text: str, line: str) -> set[int]:
    """The ranks that printed `line`: one label for several only if they did so together."""
    ranks: set[int] = set()
    for label in re.findall(rf"^\[(?:\w+:)?([\d,-]+)\] {re.escape(line)}$", text, re.MULTILINE):
        for run in label.split(","):
            first, _, last = run.partition("-")
            ranks |= set(range(int(first), int(last or first) + 1))
    return ranks


def launched(notebook: Notebook) -> list[psutil.Process]:
    """The processes of the launches that run now: launcher, agent, workers, their children."""
    return [p for p in notebook.processes() if not _is_fork_server(p, notebook)]


def fork_servers(notebook: Notebook) -> list[psutil.Process]:
    """The notebook's warm process, if it runs."""
    return [p for p in notebook.processes() if _is_fork_server(p, notebook)]


def _is_fork_server(process: psutil.Process, notebook: Notebook) -> bool:
    try:
        return process.ppid() == notebook.pid and "forkserver_main" in " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return False
