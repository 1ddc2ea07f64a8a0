"""What page 46 says of a rank that waits for another, beside what `test_preemption.py` tests."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.context import ForkProcess
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist

from rankbook.training.elastic.signal_watch import where_main_thread_is
from tests.distributed.blocked import blocked
from tests.waiting import SOON, until


def work(rank: int, folder: Path, meanwhile: Callable[[], object]) -> None:
    """Rank 1 stops; rank 0 waits for it in gloo. Both write down what their all_reduce gives.

    meanwhile: what a thread of rank 0 does once that waits.
    """
    store = dist.FileStore(str(folder / "store"), 2)
    patience = timedelta(seconds=2 * SOON)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=patience)
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    else:
        threading.Thread(target=when_it_waits, args=(folder, meanwhile), daemon=True).start()
    total = torch.ones(1)
    try:
        dist.all_reduce(total)
        said = f"{total.item():g}"
    except Exception as error:
        said = f"{error}"
    (folder / f"{rank}.part").write_text(said)
    (folder / f"{rank}.part").rename(folder / f"{rank}.said")
    signal.pause()  # a rank that ends would break the other's connection


def when_it_waits(folder: Path, meanwhile: Callable[[], object]) -> None:
    """In a thread of rank 0: see that the main thread waits, do something, and say so."""
    until(lambda: where_main_thread_is(1).startswith("all_reduce (") and blocked(os.getpid()))
    meanwhile()
    (folder / "waits").touch()


@pytest.fixture
def waiting_ranks(tmp_path):
    """Start the two, and give their processes when rank 0 waits."""
    started = []

    def start(meanwhile: Callable[[], object] = lambda: None) -> list[ForkProcess]:
        fork = multiprocessing.get_context("fork")
        for rank in range(2):
            started.append(fork.Process(target=work, args=(rank, tmp_path, meanwhile)))
            started[-1].start()
        until((tmp_path / "waits").exists, goes_on=started[0].is_alive)
        return started

    yield start
    for process in started:
        process.kill()
        process.join()


def test_without_a_handler_it_ends_at_once(waiting_ranks, tmp_path):
    rank, _ = waiting_ranks()
    os.kill(rank.pid, signal.SIGTERM)
    rank.join(SOON)
    assert rank.exitcode == -signal.SIGTERM and not (tmp_path / "0.said").exists()


def test_one_that_stands_still_is_not_ended_by_it_until_it_goes_on(waiting_ranks):
    """So the agent's 30 seconds pass for it, whether the program catches the signal or not."""
    _, stopped = waiting_ranks()
    until(lambda: psutil.Process(stopped.pid).status() == psutil.STATUS_STOPPED)
    os.kill(stopped.pid, signal.SIGTERM)
    assert psutil.Process(stopped.pid).status() == psutil.STATUS_STOPPED
    os.kill(stopped.pid, signal.SIGCONT)
    stopped.join(SOON)
    assert stopped.exitcode == -signal.SIGTERM


def test_aborting_gloos_group_does_not_free_it(waiting_ranks, tmp_path):
    """It has waited on when the other comes, after that: it gets the sum, not an error."""
    ranks = waiting_ranks(lambda: dist.distributed_c10d._get_default_group().abort())
    os.kill(ranks[1].pid, signal.SIGCONT)
    for number, rank in enumerate(ranks):
        said = tmp_path / f"{number}.said"
        until(said.exists, goes_on=rank.is_alive)
        assert said.read_text() == "2"
