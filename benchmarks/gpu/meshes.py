"""The program train_lm with a billion parameters, on every mesh that suits the GPUs there are."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import torch

from benchmarks.gpu.options import parse
from benchmarks.gpu.rows import Rows

WHAT = (
    "Steps of rankbook.programs.train_lm by mesh: preset original, 32 rows of 512 tokens. Losses "
    "of the first and the last step (each mesh draws its own dropout), the median of milliseconds "
    "a step, the most memory that tensors held on the first GPU"
)
MINUTES = 3.0  # for one mesh
STEPS, WARM_UP = 8, 3


def main(arguments: list[str] | None = None) -> int:
    """Try what was not tried yet; 1 if a mesh has failed."""
    options = parse(arguments, "Train a billion parameters on meshes of GPUs.")
    ranks = 2 if options.tiny else largest(torch.cuda.device_count())
    rows = Rows(f"meshes-gpu-{ranks}", WHAT, options.device)
    for line in meshes(ranks):
        rows.measure(line, lambda line=line: trained(line, ranks, options.tiny))
    return rows.failed()


def largest(gpus: int) -> int:
    """As many of `gpus` as are 1, 2, 4 or 8: what divides the model's heads, rows and layers."""
    return max(count for count in (1, 2, 4, 8) if count <= gpus)


def meshes(ranks: int) -> list[str]:
    """The options that differ, for so many ranks."""
    if ranks == 1:
        return ["--mesh dp=1", "--mesh dp=1 --bf16", "--mesh dp=1 --stages 2 --bf16"]
    one = [f"dp={ranks}", f"dp={ranks} --shard fsdp", f"tp={ranks}", f"pp={ranks}"]
    several = {4: ["dp=2,tp=2 --shard fsdp", "pp=2,tp=2"], 8: ["pp=2,dp=2,tp=2", "dp=2,tp=4"]}
    return [f"--mesh {mesh} --bf16" for mesh in one + several.get(ranks, [])]


def trained(line: str, ranks: int, tiny: bool) -> dict:
    """One row. Raises RuntimeError, with the last line that was said, where a mesh fails."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.jsonl"
        done = subprocess.run(
            command(line, ranks, log, tiny),
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, timeout=60 * MINUTES, check=False,
        )  # fmt: skip
        if done.returncode:
            said = [words for words in done.stderr.splitlines() if words.startswith("train_lm")]
            raise RuntimeError((said or done.stderr.strip().splitlines()[-1:] or ["no words"])[0])
        return row([json.loads(record) for record in log.read_text("utf-8").splitlines()])


def command(line: str, ranks: int, log: Path, tiny: bool) -> list[str]:
    """What starts the program for a mesh."""
    size = "--preset tiny --window 16" if tiny else "--preset original --window 512"
    steps = f"--steps {STEPS} --no-checkpoint --log-file {log}"
    torchrun = f"-m torch.distributed.run --standalone --nproc-per-node {ranks}"
    program = f"{torchrun} -m rankbook.programs.train_lm {size} {steps} {line}"
    return [sys.executable, *program.split()]


def row(records: list[dict]) -> dict:
    """What the log of a run comes to; the first steps, which are slower, are left out."""
    options = records[0]["start"]["options"]
    tokens = options["batch"] * options["window"]
    steps = [record for record in records if "loss" in record]
    seconds = median(tokens / step["tokens per second"] for step in steps[WARM_UP:])
    found = {
        "first loss": round(steps[0]["loss"], 4), "last loss": round(steps[-1]["loss"], 4),
        "ms": round(1e3 * seconds, 1), "tokens/s": round(tokens / seconds),
    }  # fmt: skip
    return found | {"peak MiB": steps[-1].get("peak MiB"), "data": records[0]["start"]["data"]}


if __name__ == "__main__":
    sys.exit(main())
