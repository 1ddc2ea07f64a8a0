"""A port that is held: nobody else is given it, and who was promised it can take it."""

import socket
from pathlib import Path

import pytest
import torch.distributed as dist

from rankbook.core.ports import ReservedPort


def free_port() -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_nobody_who_asks_for_any_port_is_given_it():
    low, high = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("utf-8").split()
    asked = 3 * (int(high) - int(low))  # so often, it would come up with a chance of 1 - e^-3
    with ReservedPort() as port:
        assert port.number not in {free_port() for _ in range(min(asked, 100_000))}


def test_torchs_store_takes_it():
    with ReservedPort() as port:
        store = dist.TCPStore("127.0.0.1", port.number, is_master=True, wait_for_workers=False)
        store.set("key", "value")
        assert store.get("key") == b"value"


def test_it_is_given_back():
    port = ReservedPort()
    with pytest.raises(OSError), socket.socket() as other:  # one that does not share
        other.bind(("127.0.0.1", port.number))
    port.close()
    with socket.socket() as other:
        other.bind(("127.0.0.1", port.number))
