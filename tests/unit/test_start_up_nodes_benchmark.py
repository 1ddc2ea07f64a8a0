"""The benchmark of starts on a slow file server: its command line, its relay, its sums."""

import io
import shutil
import socket
import struct

import pytest

from benchmarks import lean_environment, slow_server, start_up_nodes
from tests.waiting import SOON


def packet(kind: int, body: bytes = b"") -> bytes:
    return struct.pack(">IB", 1 + len(body), kind) + body


def test_without_its_tools_it_says_which(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "sshfs" else name)
    with pytest.raises(SystemExit):
        start_up_nodes.main([])
    assert "not installed: sshfs" in capsys.readouterr().err


def test_frames_are_cut_where_their_lengths_say():
    stream = io.BytesIO(packet(7, b"name") + packet(5))
    assert slow_server.frame(stream) == packet(7, b"name")
    assert slow_server.frame(stream) == packet(5)
    assert slow_server.frame(stream) == b""


def test_a_queue_serves_one_after_the_other():
    line = slow_server.Line()
    first, second = line.served(100), line.served(100)
    assert second - first == pytest.approx(100)


def test_the_relay_counts_questions_and_reads_and_changes_nothing(monkeypatch):
    """With `cat` for a server: each request is its own answer."""
    monkeypatch.setattr(slow_server, "SERVER", "cat")
    server = slow_server.SlowServer(slow_server.Speed(latency=0.0))
    sent = packet(7, b"a") + packet(slow_server.READ, b"bytes") + packet(3, b"b")
    with socket.create_connection(("127.0.0.1", server.port), timeout=SOON) as client:
        client.sendall(sent)
        stream = client.makefile("rb")
        assert b"".join(slow_server.frame(stream) for _ in range(3)) == sent
    assert server.counts == {"questions": 2, "reads": 1, "bytes": len(sent)}
    server.reset()
    assert not server.counts


def test_what_torch_needs_is_followed_and_extras_are_not():
    found = lean_environment.distributions("torch", "numpy")
    assert {"torch", "numpy", "sympy", "mpmath"} <= found  # sympy's own
    assert "pytest" not in found


def test_a_row_has_the_middle_of_its_runs():
    runs = [{"seconds": s, "questions": 10 * s, "reads": 1, "MB": 2.0} for s in (3, 1, 2)]
    row = start_up_nodes.row_of(((4, 2), "image"), runs)
    assert (row["way"], row["nodes"], row["ranks"]) == ("image", 4, 2)
    assert (row["median"], row["questions"]) == (2, 20)


def test_timed_work_gets_its_number():
    seen = []
    assert start_up_nodes.timed(seen.append, 3) >= 0 and seen == [0, 1, 2]
