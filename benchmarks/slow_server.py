"""A file server that is slow on purpose: sftp-server behind a relay with a known speed.

sshfs mounts what it serves, over TCP. The relay reads the frames of the protocol, so it counts the
requests and makes them wait: all mounts share one queue for questions and one for bytes, as they
share a server. Nothing else about the file system is made up.
"""

import queue
import socket
import struct
import subprocess
import threading
import time
from collections import Counter
from dataclasses import dataclass

SERVER = "/usr/lib/openssh/sftp-server"
READ = 5  # the type of a request for bytes, draft-ietf-secsh-filexfer-02


@dataclass(frozen=True)
class Speed:
    """requests: questions answered a second, all but reads. bandwidth: bytes a second to all
    mounts. latency: seconds from a request to the server and back."""

    requests: float = 4000.0
    bandwidth: float = 300e6
    latency: float = 0.5e-3


class Line:
    """A queue that serves one after the other."""

    def __init__(self):
        self._free, self._lock = 0.0, threading.Lock()

    def served(self, seconds: float) -> float:
        """When what comes now and takes `seconds` will be done."""
        with self._lock:
            self._free = max(time.monotonic(), self._free) + seconds
            return self._free


class SlowServer:
    """Serves this machine's files at `port`; `counts` has the requests and bytes since `reset`."""

    def __init__(self, speed: Speed):
        self.speed, self.counts = speed, Counter()
        self._questions, self._bytes = Line(), Line()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(self) -> None:
        self.counts.clear()

    def _accept(self) -> None:
        while True:
            client, _ = self._socket.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            child = subprocess.Popen([SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            under_way, stream = queue.SimpleQueue(), client.makefile("rb")
            for work in (
                (self._arrive, stream, under_way),
                (self._pass_on, under_way, child.stdin),
                (self._answer, child.stdout, client),
            ):
                threading.Thread(target=work[0], args=work[1:], daemon=True).start()

    def _arrive(self, stream, under_way) -> None:
        """Note when each request will be answered."""
        while packet := frame(stream):
            reads = packet[4] == READ
            self.counts["reads" if reads else "questions"] += 1
            due = self._questions.served(0 if reads else 1 / self.speed.requests)
            if reads:  # they wait for their bytes instead
                due = time.monotonic()
            under_way.put((due + self.speed.latency, packet))
        under_way.put((0, b""))

    def _pass_on(self, under_way, out) -> None:
        while (job := under_way.get())[1]:
            sleep_until(job[0])
            out.write(job[1])
            out.flush()
        out.close()  # the mount is gone: sftp-server ends

    def _answer(self, stream, client) -> None:
        while packet := frame(stream):
            self.counts["bytes"] += len(packet)
            sleep_until(self._bytes.served(len(packet) / self.speed.bandwidth))
            try:
                client.sendall(packet)
            except OSError:
                return


def frame(stream) -> bytes:
    """The next packet with its length in front; nothing at the end."""
    head = stream.read(4)
    return head + stream.read(struct.unpack(">I", head)[0]) if len(head) == 4 else b""


def sleep_until(due: float) -> None:
    if (left := due - time.monotonic()) > 0:
        time.sleep(left)
