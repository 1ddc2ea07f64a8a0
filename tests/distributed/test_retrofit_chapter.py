"""What chapter 47 says of its loops: told to leave, and checkpoints of Trainer."""

import ast
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.programs.retrofit import ddp_after
from rankbook.training.checkpoint import Checkpoints, ShardedCheckpoints
from tests.distributed import saving_ranks as ranks
from tests.distributed.launch import run_ranks


@pytest.mark.parametrize(
    "program,kind", [("ddp_after", Checkpoints), ("fsdp2_after", ShardedCheckpoints)]
)
def test_told_to_leave_all_ranks_save_after_the_same_step(tmp_path, program, kind):
    (store := tmp_path / "ranks").mkdir()
    with pytest.raises(Exception, match=r"SIGTERM|exit code 75"):
        run_ranks(ranks.told_to_leave, store, 2, program, str(tmp_path))
    lines = (tmp_path / "steps.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]
    assert kind(tmp_path / "kept").newest().step == 3  # durable before they left


def test_a_checkpoint_of_trainer_without_its_mark_is_passed_over(tmp_path):
    pytest.importorskip("transformers")
    from transformers.trainer_utils import get_last_checkpoint

    from rankbook.programs.retrofit import trainer_parts

    assert trainer_parts.newest(str(tmp_path)) is None
    for step in (5, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
    (tmp_path / "checkpoint-5" / trainer_parts.WHOLE).touch()
    assert trainer_parts.newest(str(tmp_path)) == str(tmp_path / "checkpoint-5")
    assert get_last_checkpoint(str(tmp_path)) == str(tmp_path / "checkpoint-10")


# Python runs it at every start: rank 1 dies in the third step after the save of step 5, when rank 0
# has told of it.
ACCIDENT = """import os, signal, sys, time
if os.environ.get("RANK") == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    from torch.optim.optimizer import register_optimizer_step_post_hook
    done = []
    def count(*_):
        done.append(1)
        while len(done) == 8 and open(f"{sys.argv[1]}/steps.jsonl").read().count("\\n") < 8:
            time.sleep(0.01)
        if len(done) == 8:
            os.kill(os.getpid(), signal.SIGKILL)
    register_optimizer_step_post_hook(count)
"""
THROWN_AWAY = "model(data.tensors[0][:1].to(device)).sum().backward()"


def printed_line() -> str:
    """The command that the first lines of ddp_after print."""
    said = ast.get_docstring(ast.parse(inspect.getsource(ddp_after))) or ""
    return said.splitlines()[0]


def typed(line: str, folder: Path, *python_path: Path) -> list[dict]:
    """Run a line in a plain shell, with DIR in `folder`; what rank 0 told of each step."""
    folder.mkdir()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    plain = {
        "PATH": path,
        "HOME": str(folder),
        "PYTHONPATH": os.pathsep.join(map(str, python_path)),
    }
    done = subprocess.run(
        ["bash", "-c", line.replace("DIR", str(folder))],
        env=plain,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = (folder / "steps.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def losses(told: list[dict]) -> dict[int, float]:
    return {each["step"]: each["loss"] for each in told}


def test_the_printed_line_survives_a_kill_to_the_bit_and_not_without_the_thrown_away_backward(
    tmp_path,
):
    """As a reader types it, without the magics. Three ranks: two would hide the order of sums."""
    line, source = printed_line(), inspect.getsource(ddp_after)
    assert "--max-restarts" in line and "--nproc-per-node 3" in line
    accident, without = tmp_path / "accident", tmp_path / "without"
    for folder in (accident, without):
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(ACCIDENT)
    assert source.count(THROWN_AWAY) == 1
    (without / "sabotaged.py").write_text(source.replace(THROWN_AWAY, "pass"))
    calm = typed(line, tmp_path / "calm")
    killed = typed(line, tmp_path / "killed", accident)
    assert {each["life"] for each in killed} == {0, 1} and len(killed) == len(calm) + 3
    assert losses(killed) == losses(calm)
    other = line.replace("rankbook.programs.retrofit.ddp_after", "sabotaged")
    sabotaged = losses(typed(other, tmp_path / "sabotaged", without))
    apart = [abs(sabotaged[step] - loss) for step, loss in losses(calm).items()]
    # the order of three sums: a few roundings of 2^-24, in a loss of about 1, over 13 steps
    assert 0 < max(apart) < 1e-5
