"""Memory of a step by formula, beside the peak of the device's own allocator.

Formula: 16 bytes a parameter (the value, its gradient, Adam's two moments), and what autograd
saves in the forward pass, counted tensor by tensor. What it leaves out is workspace.
"""

import sys
from contextlib import AbstractContextManager, nullcontext

from torch.autograd.graph import save_on_cpu

from benchmarks.gpu.options import parse
from benchmarks.gpu.rows import Rows
from rankbook.parallel import SavedBytes
from rankbook.speed.batches import Batch, make_batch
from rankbook.speed.loop import Training
from rankbook.speed.measure import PeakMemory, state_bytes
from rankbook.speed.recipes import recipe
from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import size

WHAT = (
    "Peak memory of a training step of {rows} packed reviews, MiB: by formula (parameters, "
    "gradients, Adam's moments, what autograd saves) and as the allocator has it"
)
WAYS = ("plain", "checkpointed", "offloaded")


def main(arguments: list[str] | None = None) -> int:
    """Measure what was not measured yet; 1 if a row has failed."""
    options = parse(arguments, "Hold the formula of memory against the allocator.")
    chosen = size("cpu") if options.tiny else size("full", pretrained=False)
    count = 12 if options.tiny else 96
    batch = make_batch(synthetic(count, chosen), list(range(count)), "packed")
    rows = Rows("memory-gpu-1", WHAT.format(rows=count), options.device)
    for way in WAYS:
        rows.measure(way, lambda way=way: peak(way, chosen, batch.to(options.device)))
    return rows.failed()


def peak(way: str, chosen, batch: Batch) -> dict:
    """One row. "offloaded": what autograd saves waits in the host's memory."""
    device = batch.ids.device
    how = recipe("sdpa").replace(checkpointing=way == "checkpointed", workers=0)
    step(Training(how, chosen, device), batch, nullcontext())  # libraries take memory of their own
    with PeakMemory(device) as memory:
        training = Training(how, chosen, device)
        saved = SavedBytes()
        if way != "offloaded":  # then nothing stays on the device
            saved.watch(training.model)
        step(training, batch, save_on_cpu() if way == "offloaded" else nullcontext())
        state = sum(state_bytes(training.model, training.optimizer).values())
    formula = state + saved.peak
    found = {"formula MiB": round(formula / 2**20, 1)}
    if memory.grown is None:
        raise LookupError("this kernel does not let a process reset its peak")
    return found | {"peak MiB": round(memory.grown / 2**20, 1),
                    "off": f"{memory.grown / formula - 1:+.1%}"}  # fmt: skip


def step(training: Training, batch: Batch, saving: AbstractContextManager) -> None:
    """Forward under `saving`, backward, update; gradients stay."""
    with saving:
        loss, _ = training.forward_pass(batch)
    loss.backward()
    training.optimizer.step()


if __name__ == "__main__":
    sys.exit(main())
