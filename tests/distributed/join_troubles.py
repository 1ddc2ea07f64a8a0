"""Trainings on two ranks that hang or die; test_join.py starts this program, which starts them.

python -m tests.distributed.join_troubles FOLDER

One process imports all that is needed and forks the ranks of all cases, which wait side by side.
Writes FOLDER/found.json: by case and rank, exit status (null: killed in the end), what the rank
said, and its stderr.
"""

import importlib
import json
import os
import signal
import sys
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, JoinHook
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.join_joinables import Counter, CounterHook
from tests.distributed.join_ranks import SGD, loss, make, mine, net, step
from tests.waiting import until

TIMEOUT = 30.0  # seconds of a group: nobody who comes is so late, with twenty on two busy cores


class Rank:
    """A forked process that is one of two ranks of a case."""

    def __init__(self, case: str, rank: int, folder: Path):
        folder.mkdir(exist_ok=True)
        self.said, self.errors = folder / f"{rank}.said", folder / f"{rank}.err"
        self.status, self.pid = None, os.fork()
        if not self.pid:
            trouble(case, rank, folder)

    def over(self) -> bool:
        """It has said what came out, or it has died."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = os.waitstatus_to_exitcode(status) if pid else None
        return self.status is not None or self.said.exists()

    def end(self) -> list:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        said = self.said.read_text() if self.said.exists() else ""
        return [self.status, said, self.errors.read_text()]


def main(folder: Path) -> None:
    """Start all, wait until all are over, write what came out."""
    importlib.import_module("torch._dynamo")  # DDP does at its first step; so once, not 20 times
    ranks = {
        case: [Rank(case, rank, folder / str(number)) for rank in range(2)]
        for number, case in enumerate(TROUBLES)
    }
    until(lambda: all(rank.over() for pair in ranks.values() for rank in pair))
    found = {case: [rank.end() for rank in pair] for case, pair in ranks.items()}
    (folder / "found.json").write_text(json.dumps(found))


def trouble(case: str, rank: int, folder: Path) -> None:
    """What a rank does. One that is done stays: what the other waits for does not just go away."""
    with Path(folder, f"{rank}.err").open("w") as log:
        os.dup2(log.fileno(), 2)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)
    where = {"init_method": f"file://{folder}/store", "rank": rank, "world_size": 2}
    try:
        dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT), **where)
        TROUBLES[case]()
        said = "done"
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    Path(folder, f"{rank}.part").write_text(said)
    Path(folder, f"{rank}.part").rename(folder / f"{rank}.said")
    signal.pause()


def _loop(body, wrap=nullcontext) -> None:
    model = DistributedDataParallel(net())
    stepper = make(SGD, model.parameters())
    with wrap(model):
        for number, batch in enumerate(mine()):
            body(model, stepper, number, batch)


def _plain(model, stepper, number, batch) -> None:
    step(model, stepper, *batch)


def _fails(model, stepper, number, batch) -> None:
    if number == 5:
        raise ValueError("a sample that cannot be read")
    step(model, stepper, *batch)


def _validates(model, stepper, number, batch) -> None:
    step(model, stepper, *batch)
    with torch.no_grad():
        model(batch[0])


def _validates_inside(model, stepper, number, batch) -> None:
    step(model, stepper, *batch)
    with torch.no_grad():
        model.module(batch[0])


def _two_forwards(model, stepper, number, batch) -> None:
    (model(batch[0]).mean() + model(-batch[0]).mean()).backward()


def _flushes(model, stepper, number, batch) -> None:
    ends = number % 2 or number + 1 == len(mine())
    with nullcontext() if ends else model.no_sync():
        loss(model(batch[0]), batch[1]).backward()


class _Mixed(Counter):
    """Its post hook makes an int64 tensor on the last joiner, and a float32 one on the others."""

    def join_hook(self, **_) -> JoinHook:
        hook = CounterHook(self)
        hook.post_hook = self.post_hook
        return hook

    def post_hook(self, is_last_joiner: bool) -> None:
        rank = torch.tensor([dist.get_rank()] if is_last_joiner else [-1.0])
        dist.all_reduce(rank, op=dist.ReduceOp.MAX)


def _mixed(more: int) -> None:
    counter = _Mixed()
    with Join([counter]):
        for _ in range(3 + more):
            counter()


def _order() -> None:
    counter = Counter()

    def body(model, stepper, number, batch):
        step(model, stepper, *batch)
        counter()

    _loop(body, lambda model: Join([counter, model]))


def _join(model) -> Join:
    return Join([model])


TROUBLES = {
    "without Join": lambda: _loop(_plain),
    "disabled": lambda: _loop(_plain, lambda model: Join([model], enable=False)),
    "an exception on one rank": lambda: _loop(_fails, _join),
    "validation": lambda: _loop(_validates, _join),
    "validation, the module itself": lambda: _loop(_validates_inside, _join),
    "two forwards": lambda: _loop(_two_forwards, _join),
    "accumulation": lambda: _loop(_flushes, _join),
    "another order": _order,
    "mixed dtypes": lambda: _mixed(dist.get_rank()),
    "mixed dtypes, even": lambda: _mixed(0),
}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
