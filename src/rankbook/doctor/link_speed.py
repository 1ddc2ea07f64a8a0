"""How fast and how far it is from this node to another, by TCP: the two have to do it together."""

import contextlib
import socket
import statistics
import struct
import threading
import time
from typing import NamedTuple

PINGS = 8
WINDOW = 3.0  # seconds of sending; the second half counts, when TCP has felt its way
PATIENCE = 0.2  # seconds between two tries to find somebody there
PIECE = bytes(1 << 16)
ANSWER = struct.Struct("!d")


class LinkSpeed(NamedTuple):
    """One-way latency (seconds) and bandwidth (bytes per second) to a peer."""

    seconds: float
    bytes_per_second: float


class Listening:
    """Answers those who measure their way to here, for the length of a ``with`` block.

    address: by which it is reached, "" for all. port: 0 for any that is free. place: both, as
    others need them. Raises OSError where the port is taken.
    """

    def __init__(self, address: str, port: int):
        self.server = socket.create_server((address, port))
        self.place = [address, self.server.getsockname()[1]]
        self._served = threading.Semaphore(0)

    def __enter__(self) -> "Listening":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)  # wakes who accepts
        self.server.close()

    def serve_until(self, count: int, end: float) -> None:
        """Return when `count` have measured, or at `end`, of the monotonic clock."""
        for _ in range(count):
            self._served.acquire(timeout=max(0.0, end - time.monotonic()))

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self.server.accept()
            except OSError:  # it is closed
                return
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with line, contextlib.suppress(OSError):
            if answer(line):
                self._served.release()


def answer(line: socket.socket) -> bool:
    """The far end's part: send single bytes back, then count what comes. Whether it got so far."""
    line.settimeout(5)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(PINGS):
        if line.recv(1) != b"?":
            return False  # somebody who only looks whether a port is open
        line.sendall(b"!")
    begin, got, marks = None, 0, []
    while begin is None or marks[-1][0] < begin + WINDOW:
        piece = len(line.recv(len(PIECE)))
        if not piece:
            return False
        got += piece
        marks.append((time.monotonic(), got))
        begin = begin or marks[0][0]
    line.sendall(ANSWER.pack(rate(marks)))
    line.shutdown(socket.SHUT_WR)
    with contextlib.suppress(OSError):  # what was on its way; a reset would drop the answer
        while line.recv(len(PIECE)):
            pass
    return True


def rate(marks: list[tuple[float, int]]) -> float:
    """Bytes per second in the second half of the time. marks: (when, bytes by then), 2 at least."""
    (begin, _), (end, all_of_them) = marks[0], marks[-1]
    when, by_then = next(mark for mark in marks if mark[0] >= (begin + end) / 2)
    if when == end:  # one piece, very late
        when, by_then = marks[0]
    return (all_of_them - by_then) / (end - when)


def measure(host: str, port: int, end: float) -> LinkSpeed | None:
    """The way to `host`; None if until `end` nobody there answers as `Listening` does."""
    while time.monotonic() < end:
        try:
            with socket.create_connection((host, port), timeout=end - time.monotonic()) as line:
                return _measured(line)
        except OSError:
            time.sleep(PATIENCE)
    return None


def _measured(line: socket.socket) -> LinkSpeed:
    line.settimeout(10)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times = []
    for _ in range(PINGS):
        begin = time.monotonic()
        line.sendall(b"?")
        if line.recv(1) != b"!":
            raise OSError("something else listens there")
        times.append(time.monotonic() - begin)
    found = _send(line)
    return LinkSpeed(statistics.median(times) / 2, found)


def _send(line: socket.socket) -> float:
    """Send until the far end says how fast it came."""
    done = threading.Event()

    def keep_sending() -> None:
        with contextlib.suppress(OSError):
            while not done.is_set():
                line.sendall(PIECE)

    sending = threading.Thread(target=keep_sending, daemon=True)
    sending.start()
    try:
        said = line.recv(ANSWER.size, socket.MSG_WAITALL)
        if len(said) < ANSWER.size:
            raise OSError("the other end is gone")
        return ANSWER.unpack(said)[0]
    finally:
        done.set()
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        sending.join(1)
