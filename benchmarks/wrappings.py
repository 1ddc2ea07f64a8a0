"""Record what every data-parallel wrapping does under every pipeline schedule.

python -m benchmarks.wrappings
python -m benchmarks.wrappings --python OTHER/bin/python

Writes book/results/wrappings-cpu-4.json; of another interpreter, which needs nothing but its own
torch, book/results/wrappings-torch-2.11.json, by that torch. No times are measured: the machine may
be busy. The test tests/distributed/test_wrappings.py makes the same trials and knows the outcome.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.record import RESULTS
from rankbook.core.results import Result

WHAT = (
    "Gradients of a pipeline of 2 ranks with 2 replicas, in each data-parallel wrapping, beside "
    "the unsplit model's: the relative error in each of two training steps. Both steps begin with "
    "the unsplit model's parameters"
)
SOURCE = Path(__file__).resolve().parents[1] / "src"


def main(arguments: list[str] | None = None) -> Path:
    """Try all, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.wrappings", description=__doc__)
    parser.add_argument("--python", metavar="PATH", help="another interpreter, with another torch")
    other = parser.parse_args(arguments).python
    report = tried(other or sys.executable)
    name = "torch-{}.{}".format(*report["torch"].split(".")) if other else "cpu-4"
    result = Result(
        WHAT,
        report["rows"],
        command="python -m benchmarks.wrappings" + " --python PYTHON" * bool(other),
        libraries={"torch": report["torch"]},
        where=report["where"],
        python=report["python"],
        more={"kind": "CPU"},
    )
    return result.write(RESULTS / f"wrappings-{name}.json")


def tried(python: str) -> dict:
    """What the program says that this interpreter runs."""
    command = [python, "-m", "rankbook.programs.wrappings", "--json"]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


if __name__ == "__main__":
    print(main().name)
