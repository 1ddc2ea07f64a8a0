"""What the device did in one step of the best row: its ten longest kernels, and the gaps."""

import sys
from collections import defaultdict

from benchmarks import record
from benchmarks.gpu.options import parse
from benchmarks.gpu.rows import Rows
from rankbook.speed.batches import make_batch
from rankbook.speed.loop import Training
from rankbook.speed.recipes import Recipe, recipe
from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import Size, size
from rankbook.speed.traces import trace

WHAT = "One step of the fastest recipe of speed-gpu-1, traced: milliseconds of its longest kernels"
TOP, WARM_UP = 10, 3


def main(arguments: list[str] | None = None) -> int:
    """Trace what was not traced yet; 1 if it has failed."""
    options = parse(arguments, "Trace a step of the fastest recipe.")
    rows = Rows("profile-gpu-1", WHAT, options.device)
    chosen = size("cpu") if options.tiny else size("full", pretrained=False)
    best = recipe("plain") if options.tiny else fastest()
    rows.measure(best.name, lambda: traced(best.replace(workers=0), chosen, options.device))
    return rows.failed()


def fastest() -> Recipe:
    """The recipe of the row with the most samples per second; the last of the main line if there
    are no rows yet."""
    rows = record.recorded("speed-gpu-1").get("ladder", [])
    timed = [row for row in rows if "samples_per_s" in row]
    if not timed:
        return recipe("max-autotune")
    return recipe(max(timed, key=lambda row: row["samples_per_s"])["name"])


def traced(best: Recipe, chosen: Size, device) -> dict:
    """One row: seconds of the step, the share in which no kernel ran, and the longest kernels."""
    rows = best.batch(chosen)
    batch = make_batch(synthetic(rows, chosen), list(range(rows)), best.batching)
    training = Training(best, chosen, device)
    for _ in range(WARM_UP):
        training.step(batch)
    found = trace(lambda: training.step(batch), device)
    kernels: dict[str, float] = defaultdict(float)
    for span in found.spans:
        kernels[span.name[:60]] += 1e3 * (span.end - span.start)
    longest = sorted(kernels.items(), key=lambda kernel: -kernel[1])[:TOP]
    line = {"samples": rows, "step ms": round(1e3 * found.seconds, 2)}
    line |= {"gaps": f"{found.gap_share:.1%}", "kernels": len(found.spans)}
    return line | {name: round(ms, 3) for name, ms in longest}


if __name__ == "__main__":
    sys.exit(main())
