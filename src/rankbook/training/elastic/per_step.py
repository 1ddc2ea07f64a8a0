"""Fault tolerance per step with torchft: when one replica dies, nobody else starts again.

Each replica is a job of its own (one process here), and all of them hold the whole model. A
lighthouse says at each step who takes part; a newcomer gets the state from one who is ahead.
torchft as it comes listens on every network interface, and loads that state with pickle from
whoever answers. What is made here stays on 127.0.0.1, and loads tensors and plain values only.

Source: torchft 0.2, https://docs.pytorch.org/torchft
"""

import io
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import cast
from unittest import mock

import torch
import torch.distributed as dist

from rankbook.core.ports import listen_on_loopback

HERE = "127.0.0.1"
MOST_BYTES = 8_000_000  # a value in a TCPStore can have 8 MiB


@contextmanager
def lighthouse(min_replicas: int = 1, join_timeout: float = 1.0) -> Iterator[str]:
    """A lighthouse in this process for the length of a ``with`` block; gives its address.

    min_replicas: with fewer there are no steps. join_timeout: seconds in which replicas that are
    alive, but late, are waited for.
    """
    os.environ.setdefault("RUST_LOG", "warn")  # it tells of every step otherwise
    from torchft.coordination import LighthouseServer

    server = LighthouseServer(f"{HERE}:0", min_replicas, int(join_timeout * 1000))
    try:
        yield f"http://{HERE}:{server.address().rpartition(':')[2]}"
    finally:
        server.shutdown()


def replica(
    name: str,
    address: str,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    timeout: float = 5.0,
):
    """The `torchft.Manager` of one process that is a whole replica of `model`, over gloo.

    name: of this replica, the same when it comes back. address: of the lighthouse. timeout:
    seconds after which a replica that does not answer is out; the others lose that one step.
    """
    os.environ.setdefault("RUST_LOG", "warn")
    import torchft.manager
    from torchft import Manager, ProcessGroupGloo
    from torchft.checkpointing import CheckpointTransport

    logging.getLogger("torchft.manager").setLevel(logging.ERROR)  # it misses NCCL at each change

    _keep_gloo_here()
    load, state = _state_of(model, optimizer)
    store = _store()
    server = torchft.manager.ManagerServer
    # Manager has no option for the address that its server listens at
    with mock.patch.object(
        torchft.manager, "ManagerServer", lambda **given: server(**given | {"bind": f"{HERE}:0"})
    ):
        return Manager(
            pg=ProcessGroupGloo(timeout=timedelta(seconds=timeout)),
            load_state_dict=load,
            state_dict=state,
            min_replica_size=1,
            timeout=timedelta(seconds=2 * timeout),
            rank=0,
            world_size=1,
            store_addr=HERE,
            store_port=store.port,
            lighthouse_addr=address,
            replica_id=name,
            hostname=HERE,
            checkpoint_transport=cast(CheckpointTransport, StoreTransport(store)),
        )


def _keep_gloo_here() -> None:
    """Without a name gloo listens at whatever this host's name resolves to."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")


def _store() -> dist.TCPStore:
    """A store that this process hosts, on 127.0.0.1 only."""
    listening = listen_on_loopback()
    assert listening is not None, "a machine without a free port"
    port = listening.getsockname()[1]
    return dist.TCPStore(
        HERE, port, is_master=True, wait_for_workers=False, master_listen_fd=listening.detach()
    )


def _state_of(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[Callable[[dict], None], Callable[[], dict]]:
    """What puts a state into model and optimizer, and what takes it out of them."""

    def load(state: dict) -> None:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    def state() -> dict:
        return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}

    return load, state


class StoreTransport:
    """How a newcomer gets the state, a `torchft.checkpointing.CheckpointTransport`: by a store.

    Holds one state at a time, of at most 8 MB: enough for a page; torchft has transports for more.
    """

    def __init__(self, store: dist.TCPStore):
        self._store = store
        self._sent = ""

    def metadata(self) -> str:
        """Where the others find this one's state."""
        return f"{HERE}:{self._store.port}"

    def send_checkpoint(self, dst_ranks: list[int], step: int, state_dict, timeout) -> None:
        """Lay the state of `step` ready; ValueError if it is too large."""
        file = io.BytesIO()
        torch.save(state_dict, file)
        if file.tell() > MOST_BYTES:
            raise ValueError(
                f"the state has {file.tell():,} bytes, and a store takes {MOST_BYTES:,}: "
                "use a transport of torchft's"
            )
        self._sent = f"state/{step}"
        self._store.set(self._sent, cast(str, file.getvalue()))  # it takes bytes, too

    def recv_checkpoint(self, src_rank: int, metadata: str, step: int, timeout: timedelta):
        """The state of `step` from the one at `metadata`; raises dist.DistError if none comes."""
        host, _, port = metadata.rpartition(":")
        theirs = dist.TCPStore(host, int(port), is_master=False, timeout=timeout)
        return torch.load(io.BytesIO(theirs.get(f"state/{step}")), weights_only=True)

    def disallow_checkpoint(self) -> None:
        """The step is over: nobody shall get its state any more."""
        if self._sent:
            self._store.delete_key(self._sent)
            self._sent = ""

    def shutdown(self, wait: bool = True) -> None:
        """Nothing to end: the store goes with the process."""
