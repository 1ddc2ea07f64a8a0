"""The store that carries a replica's state to newcomers, without anything of the magics."""

import psutil

from rankbook.elastic import per_step


def test_its_store_listens_on_this_machine_only():
    store = per_step._store()
    connections = psutil.Process().net_connections(kind="inet")
    listening = [c.laddr for c in connections if c.status == psutil.CONN_LISTEN]
    assert {address.ip for address in listening if address.port == store.port} == {per_step.HERE}
    store.set("key", "value")
    assert store.get("key") == b"value"
