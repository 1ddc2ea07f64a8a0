"""The interface that gloo and NCCL take, ports, and other nodes."""

import os
import socket

import pytest

from rankbook.core.ports import ReservedPort
from rankbook.doctor.interfaces import Interface, gloo_takes, interfaces, nccl_takes
from rankbook.doctor.network import existing, host_name, interface
from rankbook.doctor.ports import peer, port

LO = Interface("lo", ("127.0.0.1", "::1"), True, True)
ETH0 = Interface("eth0", ("10.0.0.1",), True, False)
ETH1 = Interface("eth1", ("10.1.0.1",), True, False)
DOWN = Interface("eth2", (), False, False)
DOCKER = Interface("docker0", ("172.17.0.1",), True, False, True)
BRIDGE = Interface("br-6f2a", ("172.18.0.1",), True, False, True)
INFINIBAND = Interface("ib0", ("10.2.0.1",), True, False)
BOTH = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


@pytest.fixture
def listening():
    """A port of the loopback on which this process listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def names(found):
    return [one.name for one in found]


def test_what_gloo_and_nccl_take():
    here = [LO, DOCKER, ETH0, DOWN]
    assert gloo_takes(here, None, ["10.0.0.1"]) == ETH0
    assert gloo_takes(here, None, ["127.0.1.1", "10.0.0.1"]) == LO
    assert gloo_takes(here, None, ["10.9.9.9"]) is gloo_takes(here, "eth7", ["10.0.0.1"]) is None
    assert names(nccl_takes(here, None)) == ["eth0"]
    assert names(nccl_takes([*here, INFINIBAND], None)) == ["ib0"]
    assert names(nccl_takes([LO, DOCKER], None)) == ["docker0"]
    assert names(nccl_takes([LO, ETH0, ETH1], "eth")) == ["eth0", "eth1"]
    assert names(nccl_takes([LO, ETH0, ETH1], "^lo,eth0")) == ["eth1"]
    assert names(nccl_takes([LO, ETH0, ETH1], "=eth1")) == ["eth1"]


def test_this_machine_has_a_loopback_with_an_address():
    (loopback,) = [one for one in interfaces() if one.loopback]
    assert loopback.up and "127.0.0.1" in loopback.addresses


@pytest.mark.parametrize(
    ("here", "named", "resolved", "level", "word"),
    [
        ([LO, ETH0], {}, ["10.0.0.1"], "ok", "eth0 (10.0.0.1)"),
        ([LO, ETH0], {}, ["127.0.1.1"], "warning", "name means 127.0.1.1"),
        ([LO, ETH0], {}, [], "warning", "export GLOO_SOCKET_IFNAME=eth0"),
        ([LO, ETH0, BRIDGE], {}, ["10.0.0.1"], "warning", "br-6f2a (a bridge)"),
        ([LO, ETH0, ETH1], dict.fromkeys(BOTH, "eth1"), ["10.0.0.1"], "ok", "eth1"),
        ([LO], {}, ["127.0.0.1"], "warning", "one node only"),
    ],
)
def test_the_choice(here, named, resolved, level, word):
    finding = interface(here, named, resolved, many=False)
    assert finding.level == level and word in finding.says
    if level == "warning" and "bridge" not in word:  # a job of two nodes cannot do with it
        assert interface(here, named, resolved, many=True).level == "problem"


def test_a_named_interface_that_is_not_there():
    (missing,) = existing([LO, ETH0], dict.fromkeys(BOTH, "eth9"))
    assert missing.level == "problem"
    assert missing.says == "There is no interface eth9: here are lo, eth0; name one of them."
    (down,) = existing([LO, DOWN], {"GLOO_SOCKET_IFNAME": "eth2"})
    assert "is down" in down.says
    assert not list(existing([LO, ETH0], {"NCCL_SOCKET_IFNAME": "eth"}))


def test_the_name_under_which_others_find_this_machine():
    assert host_name("n1", ["10.0.0.1"], True).level == "ok"
    assert host_name("localhost", ["127.0.0.1"], True).level == "problem"
    assert host_name("n1", [], False).level == "warning"


def test_ports(listening):
    taken = port(listening)
    assert taken.level == "problem" and f"process {os.getpid()} (" in taken.says
    with ReservedPort() as free:
        assert port(free.number).level == "warning"  # in the range of outgoing connections
    assert any(port(number).says == f"Port {number} is free." for number in range(29400, 29500))


def test_peers(listening):
    assert peer("n9", [], 29500).level == "problem"
    assert peer("127.0.0.1", ["127.0.0.1"], listening).value["open"]
    with ReservedPort() as refusing:
        reached = peer("127.0.0.1", ["127.0.0.1"], refusing.number)
    assert reached.level == "ok" and reached.value == {"from": "127.0.0.1", "open": False}
