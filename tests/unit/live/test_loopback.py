"""Stores at loopback addresses listen on 127.0.0.1, and nowhere else."""

import importlib
import socket

import psutil
import pytest

from rankbook.live.torchrun import loopback
from rankbook.live.torchrun.loopback import is_loopback, keep_to_loopback


@pytest.mark.parametrize(
    "host, yes",
    [("localhost", True), ("127.0.0.1", True), ("[::1]", True), ("10.0.0.1", False), ("n1", False)],
)
def test_loopback_names(host, yes):
    assert is_loopback(host) is yes


def test_stores_at_loopback_addresses_listen_there_only(monkeypatch):
    for name in loopback.WITH_STORES:  # undo after the test
        module = importlib.import_module(name)
        monkeypatch.setattr(module, "TCPStore", module.TCPStore)
    keep_to_loopback()
    dist = importlib.import_module("torch.distributed")
    store = dist.TCPStore("localhost", 0, is_master=True, multi_tenant=True, wait_for_workers=False)
    assert _listening_ips(store.port) == {"127.0.0.1"}
    same = dist.TCPStore("127.0.0.1", store.port, None, True, multi_tenant=True)  # shared
    same.set("key", "value")
    assert store.get("key") == b"value"
    client = dist.TCPStore(host_name="127.0.0.1", port=store.port, wait_for_workers=False)
    assert client.get("key") == b"value"
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(RuntimeError):
        dist.TCPStore("127.0.0.1", taken.getsockname()[1], is_master=True, wait_for_workers=False)


def _listening_ips(port: int) -> set[str]:
    connections = psutil.Process().net_connections(kind="inet")
    listening = [c for c in connections if c.status == psutil.CONN_LISTEN]
    return {c.laddr.ip for c in listening if c.laddr.port == port}
