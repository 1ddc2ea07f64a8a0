"""What a run says of itself."""

from dataclasses import replace
from pathlib import Path

from rankbook.testbed.faults import FaultRun, draw_plan


def test_a_run_that_lost_something_says_how_to_have_it_again_if_it_was_drawn():
    drawn = FaultRun(draw_plan(17), Path("here"), ["step 3 was never done"])
    assert "LOST: step 3" in str(drawn) and "record and logs: here" in str(drawn)
    assert "again: python -m rankbook.testbed.faults --seed 17" in str(drawn)
    assert "again" not in str(replace(drawn, plan=replace(drawn.plan, steps=5)))
    assert "record" not in str(replace(drawn, problems=[]))


def test_a_run_knows_which_questions_failed():
    run = FaultRun(draw_plan(17), Path("here"))
    run.ask(2, [])
    run.ask(6, ["x.tmp was left among the checkpoints"])
    run.ask(6, ["worker 9 still runs"])
    assert run.failed == [6] and len(run.problems) == 2
