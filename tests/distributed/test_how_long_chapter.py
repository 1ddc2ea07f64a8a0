"""What page 46 says of a rank that waits for another, beside what `test_preemption.py` tests."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

SOON = 900.0  # seconds
RETURNED = 9


def work(rank: int, store: Path, begin: Callable[[], object]) -> None:
    """Rank 1 stops; rank 0 calls `begin`, waits for it in gloo, and ends where that returns."""
    together = {"store": dist.FileStore(str(store), 2), "rank": rank, "world_size": 2}
    dist.init_process_group("gloo", timeout=timedelta(seconds=SOON), **together)
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    begin()
    store.with_name("waits").touch()
    try:
        dist.all_reduce(torch.ones(1))
    finally:
        os._exit(RETURNED)


@pytest.fixture
def waiting_rank(tmp_path):
    """Start the two, and give rank 0's process when it waits."""
    started = []

    def start(begin: Callable[[], object] = lambda: None) -> multiprocessing.Process:
        fork = multiprocessing.get_context("fork")
        for rank in range(2):
            started.append(fork.Process(target=work, args=(rank, tmp_path / "store", begin)))
            started[-1].start()
        end = time.monotonic() + SOON
        while not (tmp_path / "waits").exists():
            assert time.monotonic() < end
            time.sleep(0.01)
        time.sleep(0.3)
        return started[0]

    yield start
    for process in started:
        process.kill()
        process.join()


def test_without_a_handler_it_ends_at_once(waiting_rank):
    os.kill((rank := waiting_rank()).pid, signal.SIGTERM)
    rank.join(SOON)
    assert rank.exitcode == -signal.SIGTERM


def test_aborting_gloos_group_does_not_free_it(waiting_rank, tmp_path):
    def abort() -> None:
        time.sleep(0.5)
        dist.distributed_c10d._get_default_group().abort()
        (tmp_path / "aborted").touch()

    rank = waiting_rank(lambda: threading.Thread(target=abort, daemon=True).start())
    rank.join(2)
    assert (tmp_path / "aborted").exists() and rank.exitcode is None
