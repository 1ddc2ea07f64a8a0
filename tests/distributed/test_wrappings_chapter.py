"""What page 25 says of the cells that are not right, beside what was recorded and beside torch."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch
from torch.distributed.pipelining.schedules import (
    _Action,
    _add_unshard_reshard,
    _ComputationType,
)

from benchmarks.record import RESULTS
from rankbook.parallel.trials.mechanisms import MECHANISMS, why_wrong
from tests.distributed.launch import run_ranks
from tests.distributed.wrapping_cures_ranks import kept_gathered, shapes_given

CHAPTERS = Path(__file__).parents[2] / "chapters"
HEADINGS = {  # of the sections, and the cell each begins
    "resharded": "resharded",
    "armed early": "armed",
    "no hooks": "hooks",
    "all unused": "unused",
    "learned nothing": "learned",
}
ROWS = [
    row
    for row in json.loads((RESULTS / "wrappings-cpu-4.json").read_text("utf-8"))["rows"]
    if row["verdict"] != "cannot run"
]


def reasons(row):
    return why_wrong(row["schedule"], row["wrapping"], row["microbatches"])


def test_the_order_of_actions_predicts_every_recorded_cell():
    assert {row["microbatches"] for row in ROWS} == {2, 4, 8}
    for row in ROWS:
        found = reasons(row)
        assert bool(found) == (row["verdict"] != "right"), row
        raises = bool({"armed early", "all unused"} & set(found))
        assert raises == (row["verdict"] == "raises"), row


def test_every_mechanism_is_at_work_in_a_recorded_cell():
    assert {reason for row in ROWS for reason in reasons(row)} == set(MECHANISMS)


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_has_its_section(name, language):
    page = json.loads((CHAPTERS / language / "25_wrappings.ipynb").read_text("utf-8"))
    text = {cell["id"]: "".join(cell["source"]) for cell in page["cells"]}[HEADINGS[name]]
    mechanism = MECHANISMS[name]
    file, function = mechanism.function.split(": ")
    assert function in text and Path(file).name in text
    assert mechanism.upstream.rpartition("/")[2] in text
    assert text.startswith("### ")


@pytest.mark.parametrize("name", [n for n, m in MECHANISMS.items() if ".py" in m.function])
def test_torch_still_has_the_function(name):  # those in C++ are not in the wheel
    file, function = MECHANISMS[name].function.split(": ")
    module = file.removesuffix(".py").replace("/", ".")
    source = Path(importlib.util.find_spec(module).origin).read_text("utf-8")
    assert f"def {function}(" in source, torch.__version__


def test_ddp_that_is_told_its_shapes_is_right_where_no_backward_is_split(tmp_path):
    whole = [
        ("ScheduleGPipe", 1),
        ("Schedule1F1B", 1),
        ("ScheduleInterleaved1F1B", 2),
        ("ScheduleLoopedBFS", 2),
    ]
    split = [("ScheduleZBVZeroBubble", 2), ("ScheduleInterleavedZeroBubble", 2)]
    for errors in run_ranks(shapes_given, tmp_path, 2, whole + split):
        assert max(errors[:4]) < 1e-5, errors
        assert min(errors[4:]) > 0.1, errors


@pytest.mark.parametrize(("stages", "again"), [(1, False), (2, False), (3, False), (4, True)])
def test_from_four_stages_a_rank_on_some_are_gathered_twice_in_a_step(stages, again):
    forward = [_Action(stage, _ComputationType.FORWARD, 0) for stage in range(stages)]
    back = [_Action(stage, _ComputationType.FULL_BACKWARD, 0) for stage in reversed(range(stages))]
    kinds = [action.computation_type for action in _add_unshard_reshard(forward + back)]
    assert (kinds.count(_ComputationType.UNSHARD) > stages) == again


def test_layers_that_are_kept_gathered_are_right_under_every_schedule(tmp_path):
    for verdicts in run_ranks(kept_gathered, tmp_path, 4):
        assert set(verdicts.values()) == {"right"}, verdicts
