"""The launch lines that are printed in the original, as they stand, and what becomes of them today.

Page T43 re-creates them with fewer of the program's own options; it is held to what they give.
"""

import ast
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from torch.distributed import launch
from torch.distributed.run import config_from_args

from tests.originals.listing import listing

TEXT = "4-transformers-multi-node-trainer.md"
PAGE = Path(__file__).parents[2] / "chapters" / "en" / "T43_launch_commands.ipynb"
SCRIPT = "train.py"
VALUES = {
    "$NODE_RANK": "1",
    "$MASTER_ADDR": "10.0.0.1",
    "$MASTER_PORT": "29500",
    "$DATA_DRT": "/data",
}


def printed(heading: str) -> str:
    """The command under a heading, with our values for its variables."""
    command = listing(TEXT, heading, "  --num_train_epochs").split("\n", 1)[1]
    for name, value in VALUES.items():
        command = command.replace(name, value)
    return command


def words(heading: str) -> list[str]:
    """What follows ``python -m torch.distributed.launch``."""
    found = shlex.split(printed(heading).replace("\\\n", " "))
    assert found[:3] == ["python", "-m", "torch.distributed.launch"]
    return found[3:]


def refusal(arguments: list[str], capsys) -> str:
    """The last words of the launcher that does not take these arguments."""
    with pytest.raises(SystemExit) as ended:
        launch.parse_args(arguments)
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1].partition("error: ")[2]


def cell(name: str) -> str:
    cells = json.loads(PAGE.read_text("utf-8"))["cells"]
    return next("".join(cell["source"]) for cell in cells if cell["id"] == name)


def recreated(name: str, *variables: str) -> list[str]:
    """The words of our own line: the strings of a cell's variables, one after the other."""
    scope: dict[str, str] = {}
    for variable in variables:
        value = re.search(rf"^{variable} = (\(.*?\)|\".*?\")$", cell(name), re.M | re.S)
        assert value, f"cell {name} has no {variable}"
        scope[variable] = ast.literal_eval(value[1])
    return "".join(scope.values()).split()


def job(arguments: list[str]):
    """What the launcher makes of them: the size of the job, the number of the node."""
    taken = launch.parse_args(arguments)
    config, _, program = config_from_args(taken)
    return config.max_nodes * config.nproc_per_node, taken.node_rank, program


def test_one_card_is_no_command():
    line = printed("# 单机单卡")
    ended = subprocess.run(line, shell=True, capture_output=True, text=True)
    assert ended.returncode == 127 and "CUDA" in ended.stderr
    start = line.split(" python")[0]
    assert f'"{start} echo trains"' in cell("one-card")


def test_one_node_adds_an_argument():
    size, _, program = job(words("# 单机多卡"))
    assert size == 8 and SCRIPT in program
    assert "--local-rank=${local_rank}" in program
    ours, theirs = job(recreated("one-node", "eight")), words("# 单机多卡")
    assert ours[0] == size and "--local-rank=${local_rank}" in ours[2]
    assert recreated("one-node", "eight")[:3] == theirs[:3]


def test_several_nodes_is_refused(capsys):
    theirs = words("# 多机多卡")
    ours = recreated("several-nodes", "launcher", "options")
    assert SCRIPT not in theirs and not any("nnodes" in word for word in theirs)
    assert refusal(theirs, capsys) == "unrecognized arguments: --train_data_file"
    assert refusal(ours, capsys) == "unrecognized arguments: --train_data_file"
    program = theirs.index("--train_data_file")
    assert ours[: program + 1] == theirs[: program + 1]


def test_several_nodes_with_a_program_are_one_node():
    theirs = words("# 多机多卡")
    program = theirs.index("--train_data_file")
    repaired = [*theirs[:program], SCRIPT, *theirs[program:]]
    assert job(repaired)[:2] == (8, 1)
    assert job(["--nnodes=2", *repaired])[:2] == (16, 1)
    assert not any("local-rank" in word for word in job(repaired)[2])  # --use_env
