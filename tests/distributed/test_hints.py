"""A hang is told while it lasts: who waits in which call, who has not come, where each one is."""

from tests.distributed import hint_ranks as ranks
from tests.distributed.launch import run_ranks

WAITED = "demo: rank 0 has waited 0.5 s for others in"


def test_a_collective_that_a_rank_does_not_come_to(tmp_path):
    waits, late = run_ranks(ranks.late, tmp_path, 2, ranks.all_reduce, True)
    assert len(waits) == 1 and len(late) == 1
    assert waits[0].startswith(
        "demo: rank 0 has waited 0.5 s for others in all_reduce(float32 [4])"
    )
    assert "hint_ranks.py" in waits[0] and waits[0].endswith(" in all_reduce")
    assert late[0].startswith(
        "demo: rank 1 has not come to all_reduce(float32 [4]), in which rank 0 waits: it is at "
    )
    assert late[0].endswith(" in late")


def test_a_receive_which_the_recorder_does_not_know(tmp_path):
    waits, late = run_ranks(ranks.late, tmp_path, 2, ranks.receive, False)
    assert late == []
    assert len(waits) == 1 and waits[0].startswith(
        "demo: rank 0 has waited 0.5 s for others in recv"
    )
    assert waits[0].endswith(" in receive")
