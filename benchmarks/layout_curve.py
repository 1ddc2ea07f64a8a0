"""Record WikiText-2 trained on one rank, and on eight in three dimensions.

python -m benchmarks.layout_curve
python -m benchmarks.layout_curve --mesh pp=2,dp=2,tp=2

Writes book/results/layout_curve-cpu-8.json: loss and norm of every step; with --mesh, the rows of
these meshes in it. Takes the data from $RANKBOOK_DATA. No times are measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.record import recorded, write
from rankbook.parallel.mesh import Layout

MESHES = {"dp=1": "none", "pp=2,dp=2,tp=2": "fsdp"}  # and who shares a copy
STEPS = 30
NAME = "layout_curve-cpu-8"
WHAT = (
    "The first optimizer steps of a small language model on WikiText-2, with one rank and with "
    "eight in three dimensions: loss and norm of the gradient at every step"
)
PROGRAM = "rankbook.programs.train_lm"


def main(arguments: list[str] | None = None) -> Path:
    """Train on all meshes, or on those that are named, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layout_curve", description=__doc__)
    parser.add_argument("--mesh", nargs="+", default=list(MESHES), choices=list(MESHES))
    asked = parser.parse_args(arguments).mesh
    kept = recorded(NAME).get("rows", [])
    rows = [row for row in kept if row["mesh"] not in asked] + [trained(mesh) for mesh in asked]
    rows.sort(key=lambda row: list(MESHES).index(row["mesh"]))
    more = {"kind": "CPU", "preset": "tiny", "steps": STEPS}
    command = "python -m benchmarks.layout_curve"  # of all
    return write(NAME, WHAT, rows, libraries=("torch",), command=command, **more)


def trained(mesh: str) -> dict:
    """What the program logs of `STEPS` steps on `mesh`."""
    ranks = Layout.parse(mesh).ranks
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "run.jsonl")
        launch = f"-m torch.distributed.run --standalone --nproc-per-node {ranks} -m {PROGRAM}"
        about = f"--preset tiny --mesh {mesh} --shard {MESHES[mesh]} --steps {STEPS}"
        command = [sys.executable, *f"{launch} {about} --no-checkpoint".split()]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([*command, "--log-file", str(log)], env=environment, check=True)
        lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    steps = [line for line in lines if "step" in line and "loss" in line]
    columns = {f"{key}": [step[key] for step in steps] for key in ("loss", "norm")}
    return {"mesh": mesh, "shard": MESHES[mesh], "data": lines[0]["start"]["data"], **columns}


if __name__ == "__main__":
    print(main().name)
