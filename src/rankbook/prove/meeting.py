"""Where ranks meet after code that may raise on some of them, before they call a collective.

A rank that raises leaves at once, so that its end frees those that wait for it inside the code:
under torchrun and under the live ranks it does. Before it goes, it writes into the process
group's store what happened; whoever comes to the meeting, or is freed, reads it there.
"""

import datetime
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch.distributed as dist

from rankbook.core.agreement import rank_and_world

PATIENCE = 1.0  # seconds that a rank which raised waits to see on which others it did


@contextmanager
def raise_on_all(doing: Callable[[], str], call: str) -> Iterator[None]:
    """Run a block on all ranks; where it raises on some, all raise RuntimeError: who, and what.

    doing: what the block is at, in words. call: a word for this meeting alone, the same on all
    ranks. The block's own exception is the cause, on the ranks that have one. Raises TimeoutError
    where a rank does not come in the time that the store's waits have.
    """
    rank, world = rank_and_world()
    store: Any = dist.distributed_c10d._get_default_store() if world > 1 else None
    try:
        yield
    except Exception as error:
        if store is None:
            raise
        told = doing(), f"{type(error).__name__}: {_first_line(error)}"
        _tell(store, f"{call}/{rank}", (time.time(), *told))
        heard = _heard(store, call, world, PATIENCE)
        if not any(heard.values()):  # the store has gone, and with it what others said
            raise
        raise RuntimeError(_sentence(heard, world)) from error
    if store is None:
        return
    _tell(store, f"{call}/{rank}", None)
    heard = _heard(store, call, world, _seconds(store.timeout))
    if any(heard.values()):
        raise RuntimeError(_sentence(heard, world))
    if absent := sorted(set(range(world)) - heard.keys()):
        raise TimeoutError(
            f"{doing()}: {_ranks(absent)} did not come back in {_seconds(store.timeout):.0f} s"
        )


def _heard(store: Any, call: str, world: int, patience: float) -> dict[int, Any]:
    """What the ranks have said: all of them, or those so far where one raised or time is up."""
    heard: dict[int, Any] = {}
    end, pause = time.monotonic() + patience, 0.001
    while True:
        for rank in set(range(world)) - heard.keys():
            with suppress(Exception):  # the store may have gone, with the rank that held it
                if store.check([f"{call}/{rank}"]):
                    heard[rank] = pickle.loads(store.get(f"{call}/{rank}"))
        if any(heard.values()):  # those that are freed, or raise the same, say it in a moment
            end = min(end, time.monotonic() + PATIENCE)
        if len(heard) == world or time.monotonic() > end:
            return heard
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _tell(store: Any, key: str, value: Any) -> None:
    with suppress(Exception):
        store.set(key, pickle.dumps(value))


def _sentence(heard: dict[int, Any], world: int) -> str:
    """Whose error came first; the others may only have lost whom they waited for."""
    raised = {rank: told for rank, told in heard.items() if told}
    first = min(raised, key=lambda rank: raised[rank][0])
    same = sorted(rank for rank, told in raised.items() if told[1:] == raised[first][1:])
    where = "all ranks" if len(same) == world else _ranks(same)
    _, what, error = raised[first]
    return f"{what} raised on {where}: {error}"


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "no message")


def _ranks(ranks: list[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _seconds(time_out: datetime.timedelta) -> float:
    return time_out.total_seconds()
