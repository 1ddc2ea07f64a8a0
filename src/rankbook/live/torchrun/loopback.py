"""c10d's key-value stores on 127.0.0.1 only.

torch's TCPStore listens on every interface, without a password, also where its address is
127.0.0.1, and no option of torchrun changes that. What it does take is a socket that listens
already (`master_listen_fd`): here it gets one that is bound to 127.0.0.1.
"""

import importlib
import ipaddress
import os
from typing import Any

from rankbook.core.ports import listen_on_loopback

# The modules of torch that make stores, by a name of their own for the class.
WITH_STORES = (
    "torch.distributed",
    "torch.distributed.rendezvous",
    "torch.distributed.elastic.rendezvous.c10d_rendezvous_backend",
    "torch.distributed.elastic.rendezvous.static_tcp_rendezvous",
)


def is_loopback(host: str) -> bool:
    """Whether `host` names this machine's loopback interface (``localhost``, ``127.0.0.1``)."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def keep_to_loopback() -> None:
    """From now on, stores that this process hosts at a loopback address listen there only.

    Stores at other addresses are as torch makes them. Loads torch.
    """
    modules: list[Any] = [importlib.import_module(name) for name in WITH_STORES]
    if not hasattr(modules[0].TCPStore, "listens_on"):
        store = _loopback_store(modules[0].TCPStore)
        for module in modules:
            module.TCPStore = store


def keep_worker_to_loopback() -> None:
    """The same for a worker, if it is the one that hosts the process group's store."""
    hosts = (
        os.environ.get("RANK") == "0" and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    )
    if hosts and is_loopback(os.environ.get("MASTER_ADDR", "")):
        keep_to_loopback()


def _loopback_store(original):
    names = ("host_name", "port", "world_size", "is_master")

    class LoopbackTCPStore(original):
        listens_on = "127.0.0.1"

        def __init__(self, *args, **kwargs):
            given = dict(zip(names, args, strict=False)) | kwargs
            ours = given.get("is_master") and is_loopback(given["host_name"])
            if ours and given.get("master_listen_fd") is None:
                listening = listen_on_loopback(given["port"])
                # if the port is taken the original decides: it shares a store that this process
                # has at that port, or raises
                if listening is not None:
                    args = ("127.0.0.1", listening.getsockname()[1], *args[2:])
                    kwargs = {k: v for k, v in kwargs.items() if k not in names[:2]}
                    kwargs["master_listen_fd"] = listening.detach()  # the store closes it
            super().__init__(*args, **kwargs)

    return LoopbackTCPStore
