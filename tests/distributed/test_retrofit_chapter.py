"""What chapter 47 says of its loops: told to leave, and checkpoints of Trainer."""

import json

import pytest

from rankbook.checkpoint import Checkpoints, ShardedCheckpoints
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
