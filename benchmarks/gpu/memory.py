"""Memory of a step by formula, beside the peak of the device's own allocator.

The book's Transformer under one set-up after the other, each trained alone on the device. The
formula is `rankbook.predict.memory.memory_of`'s, from sizes alone. What it leaves out on a GPU:
libraries' workspaces, and that the allocator rounds sizes up to 512 bytes. "pieces" is what it has
reserved beyond what it gave out.
"""

import gc
import sys
import tempfile

import torch
import torch.distributed as dist

from benchmarks.gpu.options import parse
from benchmarks.gpu.rows import Rows
from benchmarks.memory import ALONE, MIB
from rankbook.models.transformer import TransformerConfig
from rankbook.predict.memory.formula import memory_of
from rankbook.predict.memory.live import prepare
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.recording import record_step
from rankbook.predict.memory.setup import Setup

WHAT = (
    "A training step of {rows} rows of {window} tokens, {millions:.0f} million parameters, on one "
    "device: MiB at the fullest moment by formula, by the allocator's history and as its own peak; "
    "when that is; reserved beyond; milliseconds of a step"
)
FULL = TransformerConfig(32_000, 1024, 4096, 16, 24, max_length=1024)
TINY = TransformerConfig(1000, 64, 256, 4, 4, max_length=64)
WAYS = ALONE | {"bf16, layers": {"precision": "bf16", "checkpointing": "layers"}}


def main(arguments: list[str] | None = None) -> int:
    """Measure what was not measured yet; 1 if a row has failed."""
    options = parse(arguments, "Hold the formula of memory against the allocator.")
    config, count = (TINY, 8) if options.tiny else (FULL, 8)
    shape = ModelShape.of(config)
    what = WHAT.format(
        rows=count, window=config.max_length, millions=max(1, round(shape.parameters / 1e6))
    )
    rows = Rows("memory-gpu-1", what, options.device)
    with tempfile.TemporaryDirectory() as folder:
        backend = "gloo" if options.tiny else "cpu:gloo,cuda:nccl"
        store = f"file://{folder}/store"
        dist.init_process_group(backend, init_method=store, rank=0, world_size=1)
        try:
            for name, how in WAYS.items():
                rows.measure(name, lambda how=how: peak(config, how, count, options.device))
        finally:
            dist.destroy_process_group()
    return rows.failed()


def peak(config: TransformerConfig, how: dict, count: int, device: torch.device) -> dict:
    """One row."""
    options = {"precision": "float32", "microbatches": 1} | how
    setup = Setup(**options, sequences=count // options["microbatches"])
    gc.collect()  # nothing of the row before
    ids = torch.randint(config.vocab_size, (2, count, config.max_length))
    tokens, targets = ids.to(device)
    if device.type == "cuda":
        torch.cuda.empty_cache()
    step = prepare(config, setup, device)
    tape = record_step(step, tokens, targets)
    terms = memory_of(ModelShape.of(config), setup)
    found = {
        "formula MiB": round(terms.total / MIB, 1),
        "history MiB": round(tape.total / MIB, 1),
        "fullest": tape.phase,
    }
    measured = tape.total
    if device.type == "cuda":
        measured = tape.resident or measured
        found["peak MiB"] = round(measured / MIB, 1)
        beyond = torch.cuda.max_memory_reserved(device) - measured
        found["pieces MiB"] = round(beyond / MIB, 1)
    return found | {
        "off": f"{terms.total / measured - 1:+.1%}",
        "ms": milliseconds(step, tokens, targets),
    }


def milliseconds(step, tokens: torch.Tensor, targets: torch.Tensor) -> float:
    """The median of a few steps."""
    from rankbook.core.timing import now, spread

    seconds = []
    for _ in range(5):
        begin = now(step.device)
        step(tokens, targets)
        seconds.append(now(step.device) - begin)
    return round(spread(seconds)["median"] * 1e3, 1)


if __name__ == "__main__":
    sys.exit(main())
