"""What happens to a process that saves: killed at a byte, a full disk, a disk that is read only."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
import torch

from rankbook.training.checkpoint import plain
from tests.waiting import until


def in_child(work: Callable[[], object]) -> int:
    """The exit status of a copy of this process that does `work`: 0, or 1 if that raised.

    `work` must not let torch use several threads (large tensors): they are not copied.
    """
    return end_of(begin_child(work))


def begin_child(work: Callable[[], object]) -> int:
    """Let a copy of this process do `work`; its id, for `end_of`."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


def end_of(child: int) -> int:
    """The exit status of a child, minus the number of the signal that ended it."""

    def ended() -> tuple[int, int] | None:
        done = os.waitpid(child, os.WNOHANG)
        return done if done[0] else None

    try:
        _, status = until(ended)
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return os.waitstatus_to_exitcode(status)


def names(folder: Path) -> list[str]:
    """What is in a folder, hidden files too."""
    return sorted(path.name for path in folder.iterdir())


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def killed_at_byte(position: int) -> Iterator[None]:
    """SIGKILL when this many bytes of a torch file are in the file system."""
    left, write = position, plain._Hashing.write

    def cut(self, data: bytes) -> int:
        nonlocal left
        if len(data) >= left:
            write(self, bytes(data)[:left])
            self.file.flush()
            die()
        left -= len(data)
        return write(self, data)

    with mock.patch.object(plain._Hashing, "write", cut):
        yield


@contextmanager
def killed_at(function: str, call: int, after: bool) -> Iterator[None]:
    """SIGKILL at the given call (from 1) of this function of `os`, before or after it."""
    real, count = getattr(os, function), 0

    def counted(*args, **options):
        nonlocal count
        count += 1
        if count == call and not after:
            die()
        result = real(*args, **options)
        if count == call:
            die()
        return result

    with mock.patch.object(os, function, counted):
        yield


@contextmanager
def disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A file system of this size at `folder`; skips the test where none may be mounted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def read_only(folder: Path) -> None:
    """Make the file system that `disk` gave read only."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def same(left, right) -> bool:
    """Whether two states are equal to the bit."""
    if isinstance(left, torch.Tensor):
        return torch.equal(left, right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right
