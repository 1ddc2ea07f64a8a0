"""What a checkpoint of a sharded model costs: how long training stands still, when it is durable.

    python -m benchmarks.saving [--repeats 9] [--widths 512 1024 2048]

Two ranks train an FSDP2 model, and save it in turns: with `ShardedCheckpoints`, in the background
and waited for, and with torch's own `save` and `async_save`, whose writer is a thread or a process.
Each turn is a block of STEPS steps with one save at its beginning, and one block without a save.
Writes book/results/saving-cpu-2.json. Nothing else should run on the machine meanwhile.
"""

import argparse
import os
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from benchmarks.harness import Here, about, interleaved, most, on_ranks, show
from benchmarks.record import check_repeats, summary, write
from rankbook.training.checkpoint import ShardedCheckpoints, capture

RANKS, LAYERS, ROWS, STEPS = 2, 4, 12, 6
WAYS = ("no save", "ours, and wait", "ours", "torch save", "torch async_save, thread",
        "torch async_save, process")  # fmt: skip
MEASURED = ("stands still", "durable after", "more")
WHAT = (
    f"A save of an FSDP2 model of {LAYERS} linear layers and Adam's state by {RANKS} ranks, in "
    "turns. stands still: seconds until the call returned. durable after: until all parts were "
    "synced, the checkpoint had its name, and all ranks knew. more: what a block of "
    f"{STEPS} steps with a save at its beginning, and the wait for it at the end, took beyond the "
    "block without a save of the same turn. Of the slowest rank each"
)

Begin = Callable[[], Callable[[], object]]  # begins a save; gives what waits until it is durable


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    options = parse(arguments)
    more = about(RANKS) | {"unit": "ms"}
    began, rows = time.monotonic(), []
    for width in options.widths:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            rows += table(width, on_ranks(RANKS, measure, folder, width, options.repeats))
    show(*rows)
    minutes = round((time.monotonic() - began) / 60, 1)
    print(write("saving-cpu-2", WHAT, rows, libraries=("torch",), **more, minutes=minutes))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="turns (9)")
    parser.add_argument("--widths", type=int, nargs="+", default=[512, 1024, 2048])
    parser.add_argument("--folder", help="on the disk to measure (the one of temporary files)")
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    if min(options.widths) < 1:
        parser.error(f"--widths {min(options.widths)} is no layer; use 1 or more")
    return options


def table(width: int, seconds: dict[tuple[str, str], list[float]]) -> list[dict]:
    """One row a (way, what was measured), in milliseconds."""
    megabytes = round(nbytes(width) / 1e6, 1)
    of_block = defaultdict(list, {way: times for (way, name), times in seconds.items()
                                  if name == "block"})  # fmt: skip
    rows = []
    for way in WAYS[1:]:
        times = {name: seconds.get((way, name), []) for name in MEASURED[:2]}
        pairs = zip(of_block[way], of_block[WAYS[0]], strict=bool(of_block[way]))
        times["more"] = [with_save - without for with_save, without in pairs]
        about = {"MB": megabytes, "way": way}
        rows += [about | {"measured": name} | summary(found) for name, found in times.items()
                 if found]  # fmt: skip
    return rows


def nbytes(width: int) -> int:
    """Bytes of the parameters and of Adam's two averages, in float32."""
    return 3 * 4 * LAYERS * (width * width + width)


def sharded(width: int) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model that is divided over all ranks, layer by layer, and its optimizer."""
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(width, width) for _ in range(LAYERS)))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for module in (*model, model):
        fully_shard(module, mesh=mesh)
    return model, torch.optim.Adam(model.parameters(), lr=1e-4)


def measure(
    here: Here, folder: str, width: int, repeats: int
) -> dict[tuple[str, str], list[float]]:
    """Seconds of the slowest rank, by way and by what was measured."""
    os.environ["MASTER_ADDR"] = "127.0.0.1"  # of the process that torch starts to write
    model, optimizer = sharded(width)
    rows = torch.randn(ROWS, width)

    def step() -> None:
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()

    step()

    def alone(begin: Begin) -> dict[str, float]:
        times = block(begin, step)
        clear(Path(folder), here.rank)
        return times

    ways, seconds = begins(Path(folder), model, optimizer), defaultdict(list)
    saves = {way: partial(alone, begin) for way, begin in ways.items()}
    for way, found in interleaved(saves, repeats, warm_up=1).items():
        for times in found:
            for name, took in times.items():
                seconds[way, name].append(took)
    return dict(seconds)


def begins(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Begin]:
    """What begins a save in each way."""
    ours = ShardedCheckpoints(folder / "saves", keep=1)
    group = dist.new_group(backend="gloo")  # as ours has one: not that of the training
    numbers = iter(range(10**6))

    def nothing() -> Callable:
        return lambda: None

    def save(wait: bool) -> Callable:
        ours.save(next(numbers), capture(model, optimizer, {}))
        if wait:
            ours.wait()
        return ours.wait

    def torchs(work: Callable, **more) -> Callable:
        weights, of_optimizer = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": of_optimizer}
        path = f"{folder}/saves/{next(numbers)}"
        begun = work(state, checkpoint_id=path, process_group=group, **more)
        return getattr(begun, "result", lambda: None)

    thread, process = AsyncCheckpointerType.THREAD, AsyncCheckpointerType.PROCESS
    found = (
        nothing,
        partial(save, True),
        partial(save, False),
        partial(torchs, dcp.save),
        partial(torchs, dcp.async_save, async_checkpointer_type=thread),
        partial(torchs, dcp.async_save, async_checkpointer_type=process),
    )
    return dict(zip(WAYS, found, strict=True))


def block(begin: Begin, step: Callable[[], None]) -> dict[str, float]:
    """A save alone, then one with steps behind it; the seconds of the slowest rank."""
    dist.barrier()
    start = time.perf_counter()
    wait = begin()
    times = {"stands still": time.perf_counter() - start}
    wait()
    times["durable after"] = time.perf_counter() - start
    dist.barrier()
    start = time.perf_counter()
    wait = begin()
    for _ in range(STEPS):
        step()
    wait()
    times["block"] = time.perf_counter() - start
    return most(times)


def clear(folder: Path, rank: int) -> None:
    """Remove what was saved, and let the disk have it: the next save shall not wait for it."""
    dist.barrier()
    if rank == 0:
        shutil.rmtree(folder / "saves", ignore_errors=True)
        os.sync()
    dist.barrier()


if __name__ == "__main__":
    main()
