"""Two minutes: does each thing run at all? A line a thing; nothing is timed."""

import importlib.util
import sys
from collections.abc import Callable

import torch
import torch.distributed as dist

from benchmarks import pipelines_gpu
from benchmarks.gpu.options import parse
from rankbook.models import preset
from rankbook.speed.ladder import run
from rankbook.speed.recipes import LADDER
from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import size

NOTEBOOK = ("IPython", "ipykernel", "jupyter_client", "zmq", "psutil")  # what the magics need


def main(arguments: list[str] | None = None) -> int:
    """Try each thing; 1 if one has failed."""
    options = parse(arguments, "Does each thing run at all?")
    tried = [
        attempt("all_reduce", lambda: all_reduce(options.device)),
        attempt("ranks", magics),
        attempt("ladder", lambda: ladder(options.device, options.tiny)),
        attempt("pipeline", lambda: pipeline(options.device)),
    ]
    return int(not all(tried))


def attempt(name: str, work: Callable[[], str]) -> bool:
    """Say what `work` said, what it lacked (a LookupError), or how it failed."""
    try:
        print(f"{name}: {work()}", flush=True)
    except (LookupError, ImportError) as lacking:
        print(f"{name}: skipped: {lacking.args[0]}", flush=True)
    except Exception as error:
        print(f"{name}: FAILED: {type(error).__name__}: {error}", flush=True)
        return False
    return True


def all_reduce(device: torch.device) -> str:
    """One rank alone, with the device's own backend."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    with pipelines_gpu.process_group(backend):
        ones = torch.ones(4, device=device)
        dist.all_reduce(ones)
        assert ones.tolist() == [1, 1, 1, 1]
    return f"{backend} on {device}"


def magics() -> str:
    """``%ranks start`` with one rank and with two, in an IPython of this process."""
    missing = [name for name in NOTEBOOK if not importlib.util.find_spec(name)]
    if missing:
        raise LookupError(f"{', '.join(missing)}: not installed here; make test-gpu installs it")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    shell.run_line_magic("load_ext", "rankbook")
    for ranks in (1, 2):
        shell.run_line_magic("ranks", f"start -n {ranks}")
        shell.run_cell_magic("ranks", "", "dist.all_reduce(torch.ones(1, device=device))")
        shell.run_line_magic("ranks", "stop")
    return "1 and 2"


def ladder(device: torch.device, tiny: bool) -> str:
    """The first three recipes on 4 batches."""
    chosen = size("cpu", max_length=64, samples=48) if tiny else size("full", pretrained=False)
    recipes = [recipe.replace(workers=0) for recipe in LADDER[:3]]
    rows = run(recipes, chosen, synthetic(48, chosen), device=device, steps=4, repeats=1)
    failed = [row["error"] for row in rows if "error" in row]
    if failed:
        raise RuntimeError("; ".join(failed))
    ends = (row.get("skipped") or f"loss {row['losses'][-1]:.3f}" for row in rows)
    return ", ".join(f"{row['name']}: {end}" for row, end in zip(rows, ends, strict=True))


def pipeline(device: torch.device) -> str:
    """Three steps of a tiny pipeline, both stages on this device."""
    config = preset("tiny", 64)
    with pipelines_gpu.process_group("nccl" if device.type == "cuda" else "gloo"):
        made = pipelines_gpu.make(config, device, microbatches=4)
        pipelines_gpu.time_steps(*made, (8, 16), [("float32", False)], repeats=3)
    return "3 steps"


if __name__ == "__main__":
    sys.exit(main())
