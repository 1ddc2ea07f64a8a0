"""What DDP hides: backward passes of rank 0 by torch's profiler, with one bucket and with several.

    python -m benchmarks.backward_traces

Writes book/results/backward_traces-cpu-2.json. The ranks have a thread each, and the cases take
turns. Whatever else a machine does can only slow a pass down, so of each case the fastest is kept,
the first one aside: DDP makes its buckets anew after it.
"""

import argparse
from collections.abc import Callable

import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from benchmarks.harness import Here, about, on_ranks
from benchmarks.record import check_repeats, write
from rankbook.core.others import others
from rankbook.models.classifier import Classifier
from rankbook.speed.batches import make_batch
from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import size
from rankbook.speed.strategies.backward_trace import BackwardTrace, trace_backward

RANKS, ROWS = 2, 6  # of each rank
WIDE = {"max_length": 64, "d_model": 64, "d_hidden": 256}
NARROW = {"max_length": 64, "vocab_size": 1000, "layers": 4}
CASES = {  # the size's changes, and the limit of a bucket in MiB
    "one bucket": (NARROW, 1000),
    "buckets of 1 MiB": (NARROW, 1),
    "30,522 words, by default": (WIDE, None),
}
WHAT = (
    "The backward pass of a classifier in DDP, rank 0 of {ranks}, {rows} reviews of 64 random "
    "words on each rank: its operations and its all_reduces as torch.profiler saw them, the "
    "fastest pass of {repeats}; milliseconds until the last gradient is computed and until all "
    "are averaged"
)


def main(arguments: list[str] | None = None) -> None:
    """Trace, print one line a case, and write the result."""
    parser = argparse.ArgumentParser(description="Trace backward passes of DDP.")
    parser.add_argument("--repeats", type=int, default=40, help="traced passes of each case (40)")
    repeats = parser.parse_args(arguments).repeats
    check_repeats(parser, repeats)
    more = about(RANKS)
    with others() as other:
        found = on_ranks(RANKS, fastest, repeats)
    traces = {name: BackwardTrace.of(each) for name, each in found.items()}
    rows = [row(name, trace) for name, trace in traces.items()]
    more |= {"others": round(other.share, 2)}
    more |= {"traces": {name: trace.as_dict() for name, trace in traces.items()}}
    what = WHAT.format(ranks=RANKS, rows=ROWS, repeats=repeats)
    path = write(f"backward_traces-cpu-{RANKS}", what, rows, libraries=("torch",), **more)
    print(*rows, other, path, sep="\n")


def row(case: str, trace: BackwardTrace) -> dict:
    """One line of the table."""
    return {
        "case": case,
        "operations": len(trace.operations),
        "all_reduces": len(trace.sent),
        "hidden": round(trace.hidden, 2),
        "computed ms": round(1e3 * trace.computed, 1),
        "averaged ms": round(1e3 * end(trace), 1),
    }


def fastest(_here: Here, repeats: int) -> dict[str, dict]:
    """The fastest pass of each case, as this rank saw it."""
    passes = {name: traced(*case) for name, case in CASES.items()}
    found = {name: [] for name in CASES}
    for _ in range(1 + repeats):
        for name, traces in found.items():
            traces.append(passes[name]())
    return {name: min(traces[1:], key=end).as_dict() for name, traces in found.items()}


def traced(changes: dict, limit: int | None) -> Callable[[], BackwardTrace]:
    """What makes a backward pass of this rank under the profiler; all ranks call it."""
    of = size("cpu", **changes)
    model = Classifier(of.model, attention="sdpa").initialise(seed=0)
    ddp = DistributedDataParallel(model, bucket_cap_mb=limit)
    mine = make_batch(synthetic(ROWS, of), list(range(ROWS)), "longest of all", of.max_length)

    def one() -> BackwardTrace:
        loss = F.cross_entropy(ddp(*mine.inputs), mine.labels)
        dist.barrier()
        return trace_backward(loss.backward)

    return one


def end(trace: BackwardTrace) -> float:
    """When all gradients were averaged."""
    return max(span.end for span in trace.sent)


if __name__ == "__main__":
    main()
