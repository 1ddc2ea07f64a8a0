"""ranks_live in a terminal: the very lines that page 16 prints, in both languages."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.core.ports import ReservedPort
from tests.waiting import SOON

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def printed_lines(language: str) -> list[str]:
    """The commands in the page's ``bash`` blocks that start this program."""
    path = ROOT / f"chapters/{language}/16_several_nodes.ipynb"
    cells = json.loads(path.read_text("utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    lines = re.findall(r"^```bash\n(torchrun .*?)\n```", text, re.MULTILINE | re.DOTALL)
    return [line for line in lines if "rankbook.programs.ranks_live" in line]


def start(line: str) -> subprocess.Popen:
    """Start a printed line as a terminal would; only ``torchrun`` itself is spelt out."""
    program, *options = shlex.split(line.replace("\\\n", " "))
    assert program == "torchrun"
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT / "src")}
    return subprocess.Popen(
        [*TORCHRUN, *options], env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(*agents: subprocess.Popen) -> str:
    """What all agents printed; each must end well, and none stays."""
    try:
        outputs = [agent.communicate(timeout=SOON)[0] for agent in agents]
    finally:
        for agent in agents:
            agent.kill()
    assert all(agent.returncode == 0 for agent in agents), "\n".join(outputs)
    return "\n".join(outputs)


def numbers(output: str, name: str) -> list[int]:
    return sorted(int(n) for n in re.findall(rf"'{name}': (\d+)", output))


def test_the_languages_print_the_same_lines():
    assert printed_lines("en") == printed_lines("zh")
    assert len(printed_lines("en")) == 2


def test_one_machine():
    output = finish(start(printed_lines("en")[0]))
    assert numbers(output, "RANK") == [0, 1, 2, 3]
    assert numbers(output, "GROUP_RANK") == [0] * 4
    # 12 float32 numbers: each rank sends 2 * 3 / 4 of 48 bytes
    assert [int(n) for n in re.findall(r"'bytes_sent': (\d+)", output)] == [72] * 4


def test_two_machines():
    """On one machine, and with one rank on each node: the line itself is what is tested."""
    line = printed_lines("en")[1].replace("--nproc-per-node 4", "--nproc-per-node 1")
    with ReservedPort() as port:
        line = line.replace("$HEAD:29400", f"127.0.0.1:{port.number}")
        output = finish(start(line), start(line))
    assert numbers(output, "RANK") == numbers(output, "GROUP_RANK") == [0, 1]
    assert numbers(output, "LOCAL_RANK") == [0, 0]


def test_torchs_own_check_crashes_ddp(tmp_path):
    """The first chapter says so of torch 2.13; when this fails, the sentence has to go."""
    import torch

    if not torch.__version__.startswith("2.13."):
        pytest.skip(f"the book speaks of torch 2.13, this is {torch.__version__}")
    program = tmp_path / "ddp.py"
    program.write_text(
        "import torch\n"
        "torch.distributed.init_process_group('gloo')\n"
        "torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))\n"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
    command = [*TORCHRUN, "--standalone", "--nproc-per-node", "2", str(program)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SOON)
    assert run.returncode and "SIGSEGV" in run.stderr, run.stderr
