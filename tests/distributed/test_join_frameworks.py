"""accelerate 1.15 and Lightning 2.6 on uneven inputs: what they repeat, and where they hang.

Where such a test fails after an update, the page on uneven data has to change.
"""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.waiting import SOON

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What both ranks found with each; started together, as they wait most of the time."""
    folder = tmp_path_factory.mktemp("found")
    running = {which: start(which, folder) for which in ("accelerate", "lightning")}
    for which, process in running.items():
        try:
            _, errors = process.communicate(timeout=SOON)
        finally:
            process.terminate()  # torchrun ends its ranks
        assert process.returncode == 0, f"{which}: {errors[-6000:]}"
    return {
        which: [json.loads((folder / f"{which}-{rank}.json").read_text()) for rank in range(2)]
        for which in running
    }


def start(which: str, folder: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    environment = {
        **os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo0" if sys.platform == "darwin" else "lo",
    }  # fmt: skip
    program = [str(HERE / "join_frameworks.py"), which, str(folder)]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([*command, "2", *program], env=environment, **pipes)


def hung(told: str) -> bool:
    return "Timed out" in told or "timeout" in told or "closed" in told


def test_accelerate(found):
    ranks = found["accelerate"]
    taken = [rank["even batches"]["taken"] for rank in ranks]
    assert taken == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9, 0]]  # the first once more
    taken = [rank["torch's Join"]["taken"] for rank in ranks]
    assert taken == [[0, 2, 4, 6, 8, 10], [1, 3, 5, 7, 9]]
    assert ranks[0]["torch's Join"]["weight"] == ranks[1]["torch's Join"]["weight"]
    for rank in ranks:
        (warning,) = rank["warned"]
        assert warning.endswith("`join_uneven_inputs` will have no effect.")
    assert hung(ranks[0]["join_uneven_inputs"]), ranks[0]  # in the step that rank 1 has not
    assert ranks[1]["join_uneven_inputs"]["taken"] == [1, 3, 5, 7, 9]


def test_lightning(found):
    ranks = found["lightning"]
    times = Counter(sample for rank in ranks for sample, _ in rank["map-style"]["taken"])
    assert len(times) == 11 and sorted(times.values()) == [1] * 10 + [2]
    assert [rank["equal_steps"]["taken"] for rank in ranks] == [
        [[0, 1], [1, 1], [2, 1], [3, 1], [4, 1], [4, 0]],
        [[10, 1], [11, 1], [12, 1], [13, 1], [14, 1], [15, 2]],
    ]
    assert ranks[0]["equal_steps"]["weight"] == ranks[1]["equal_steps"]["weight"]
    assert len(ranks[0]["iterable"]["taken"]) == 5 and "weight" in ranks[0]["iterable"]
    assert len(ranks[1]["iterable"]["taken"]) == 6 and hung(ranks[1]["iterable"]["error"])
