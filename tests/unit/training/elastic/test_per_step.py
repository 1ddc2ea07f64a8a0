"""The store that carries a replica's state to newcomers, without anything of the magics."""

import os

import psutil
import pytest

from rankbook.training.elastic import per_step


def test_its_store_listens_on_this_machine_only():
    store = per_step._store()
    connections = psutil.Process().net_connections(kind="inet")
    listening = [c.laddr for c in connections if c.status == psutil.CONN_LISTEN]
    assert {address.ip for address in listening if address.port == store.port} == {per_step.HERE}
    store.set("key", "value")
    assert store.get("key") == b"value"


@pytest.mark.parametrize("given", [None, "eth7"])
def test_gloo_stays_here_where_nothing_else_is_said(monkeypatch, given):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", given or "")  # so that it is put back
    if given is None:
        monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    per_step._keep_gloo_here()
    loopback = {name for name, found in psutil.net_if_addrs().items() if _has(found, "127.0.0.1")}
    said = os.environ["GLOO_SOCKET_IFNAME"]
    assert said == given if given else said in loopback


def _has(addresses: list, address: str) -> bool:
    return any(each.address == address for each in addresses)
