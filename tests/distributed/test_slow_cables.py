"""A host's cable that is slow: never faster than it is told to be, and refused in one sentence.

What is not slow has no limit in the kernel, and no other way: that is looked up, not timed.
"""

import json
import os
import subprocess
import sys

import pytest

from rankbook.testbed import hosts
from rankbook.testbed.hosts import FRAME, Host, two_hosts, why_not_slow
from tests.waiting import SOON

REASON = why_not_slow()
needs_slow_cables = pytest.mark.skipif(bool(REASON), reason=REASON)
DELAY = 0.05  # seconds
NO_DELAY = REASON or why_not_slow(DELAY)
needs_delays = pytest.mark.skipif(bool(NO_DELAY), reason=NO_DELAY)
RATE = 4e6  # bits per second: half a megabyte takes a second

RECEIVE = """
import socket, sys
server = socket.create_server((sys.argv[1], 4000))
print("ready", flush=True)
peer, _ = server.accept()
while peer.recv(1 << 16):
    pass
peer.sendall(b"!")  # all of it is here
"""
SEND = """
import socket, sys, time
peer = socket.create_connection((sys.argv[1], 4000))
began = time.monotonic()
peer.sendall(bytes(int(sys.argv[2])))
peer.shutdown(socket.SHUT_WR)
peer.recv(1)
print(time.monotonic() - began)
"""


def seconds(source: Host, target: Host, nbytes: int) -> float:
    """Until `nbytes` from `source` are at `target`."""
    words = target.command(sys.executable, "-c", RECEIVE, target.address)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as receiver:
        assert receiver.stdout.readline() == "ready\n"
        send = source.command(sys.executable, "-c", SEND, target.address, str(nbytes))
        done = subprocess.run(send, check=True, capture_output=True, text=True, timeout=SOON)
    return float(done.stdout)


def asked(host: Host, *words: str) -> list[dict]:
    """What ``ip`` or ``tc`` says on `host`."""
    environment = {**os.environ, "PATH": hosts.search_path()}
    return json.loads(subprocess.check_output(host.command(*words), env=environment))


def queue(host: Host) -> dict:
    """The one queue of its cable: its kind, what it lets through, how many bytes it has."""
    (found,) = asked(host, "tc", "-s", "-j", "qdisc", "show", "dev", host.interface)
    return found


def is_limited(host: Host) -> bool:
    return queue(host)["kind"] == "tbf"


def way(host: Host, target: Host) -> str:
    """The device by which packets to `target` leave."""
    return asked(host, "ip", "-j", "route", "get", target.address)[0]["dev"]


@needs_slow_cables
def test_nothing_leaves_faster_than_the_limit_and_what_comes_does():
    nbytes = 500_000
    at_most = 8 * (nbytes - 4 * FRAME) / RATE  # what the bucket holds goes at once
    with two_hosts() as (one, other):
        one.limit(RATE)
        assert seconds(one, other, nbytes) > at_most
        assert (so_far := queue(one)["bytes"]) > nbytes
        # the other way only the acknowledgements are slow
        seconds(other, one, nbytes)
        assert 0 < queue(one)["bytes"] - so_far < nbytes / 2 and not is_limited(other)
        one.limit(RATE / 2)  # instead of the first one, not beside it
        assert seconds(one, other, nbytes // 2) > at_most
        assert queue(one)["options"]["rate"] == RATE / 2 / 8


def there_and_back(source: Host, target: Host) -> float:
    """Seconds of the quickest of some answers, each after its question."""
    echo = "import socket\nserver = socket.create_server(('%s', 4001))\nprint(flush=True)\n"
    echo += "peer = server.accept()[0]\nwhile word := peer.recv(1): peer.sendall(word)"
    ask = "import socket, time\npeer = socket.create_connection(('%s', 4001))\ntimes = []\n"
    ask += "for _ in range(8):\n    began = time.monotonic()\n    peer.sendall(b'?')\n"
    ask += "    peer.recv(1)\n    times.append(time.monotonic() - began)\nprint(min(times))"
    words = target.command(sys.executable, "-c", echo % target.address)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as answers:
        assert answers.stdout.readline() == "\n"
        asking = source.command(sys.executable, "-c", ask % target.address)
        done = subprocess.run(asking, check=True, capture_output=True, text=True, timeout=SOON)
    return float(done.stdout)


@needs_delays
def test_a_delay_holds_back_what_leaves_and_the_rate_stays():
    nbytes = 500_000
    at_most = 8 * (nbytes - 4 * FRAME) / RATE
    with two_hosts() as (one, other):
        one.limit(RATE, DELAY)
        assert there_and_back(one, other) >= DELAY
        assert seconds(one, other, nbytes) > at_most + DELAY
        other.limit(RATE, DELAY)
        assert there_and_back(other, one) >= 2 * DELAY
        one.limit(RATE, 2 * DELAY)  # instead of the first one, not beside it
        assert there_and_back(one, other) >= 3 * DELAY
        assert len(one.processes()) == 1  # which does it
        assert way(one, other) == way(other, one) == hosts.DELAYING
        one.limit(RATE)
        other.limit(RATE)
        assert (way(one, other), way(other, one)) == (one.interface, other.interface)
        assert is_limited(one) and is_limited(other) and there_and_back(one, other) > 0
        assert not one.processes() + other.processes()


@needs_delays
def test_a_host_with_a_delay_can_be_cut_and_mended():
    with two_hosts() as (one, other):
        one.limit(RATE, DELAY)
        one.cut()
        one.mend()
        assert there_and_back(one, other) >= DELAY


@pytest.mark.parametrize("delay", [-0.1, 11, float("nan")])
def test_a_delay_that_no_cable_has_is_refused(delay):
    with pytest.raises(ValueError, match="seconds; use 0 to 10"):
        Host("nowhere", "10.0.0.1", []).limit(RATE, delay)


@pytest.mark.parametrize("rate", [0, -1.0, float("nan"), 9_999])
def test_a_rate_that_no_cable_has_is_refused(rate):
    with pytest.raises(ValueError, match="bits per second; use 10,000 or more"):
        Host("nowhere", "10.0.0.1", []).limit(rate)


def test_without_tc_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr(hosts.shutil, "which", lambda name, path=None: None)
    with pytest.raises(RuntimeError, match=r"^a slow cable needs the command tc "):
        Host("nowhere", "10.0.0.1", []).limit(RATE)
    assert why_not_slow()  # whichever is missed first


def test_a_kernel_that_cannot_says_so(monkeypatch):
    refuses = Host("nowhere", "10.0.0.1", ["sh", "-c", "echo no tbf here >&2; exit 2"])
    monkeypatch.setattr(hosts.shutil, "which", lambda name, path=None: name)
    with pytest.raises(RuntimeError, match="cannot slow a cable: no tbf here"):
        refuses.limit(RATE)
