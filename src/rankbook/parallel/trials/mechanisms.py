"""Why a data-parallel wrapping is not right under a schedule: five mechanisms of torch 2.13.

Which of them a cell of the matrix shows follows from the order of a stage's actions alone, so it
can be predicted; `tests/distributed/test_wrappings_chapter.py` holds the prediction against the
measured matrix. For each there is a program of at most 30 lines in `tests/wrappings`. Sources:
https://github.com/pytorch/pytorch/blob/v2.13.0/torch/distributed/pipelining/stage.py,
https://github.com/pytorch/pytorch/blob/v2.13.0/torch/csrc/distributed/c10d/reducer.cpp
"""

from dataclasses import dataclass
from itertools import pairwise

from rankbook.parallel.pipeline.plan import PipelinePlan
from rankbook.parallel.pipeline.planned_actions import action_lists


@dataclass(frozen=True)
class Mechanism:
    """One reason.

    program: the file in `tests/wrappings` that shows it. function: where in torch it happens,
    ``file: function``. upstream: what is known of it in PyTorch's repository, "" where nothing
    was found when this was written, in November 2026.
    """

    name: str
    program: str
    function: str
    upstream: str = ""


_ISSUES = "https://github.com/pytorch/pytorch"
MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (
        Mechanism(
            "resharded",
            "fully_shard_each_layer.py",
            "torch/distributed/pipelining/_backward.py: stage_backward_input",
        ),
        Mechanism(
            "armed early",
            "ddp_armed_twice.py",
            "torch/distributed/pipelining/stage.py: _forward_metadata_inference",
        ),
        Mechanism(
            "no hooks",
            "ddp_split_backward.py",
            "torch/distributed/pipelining/_backward.py: stage_backward_weight",
            f"{_ISSUES}/issues/144530",
        ),
        Mechanism(
            "all unused",
            "ddp_all_unused.py",
            "torch/csrc/distributed/c10d/reducer.cpp: search_unused_parameters",
            f"{_ISSUES}/issues/144530",
        ),
        Mechanism(
            "learned nothing",
            "ddp_static_graph.py",
            "torch/csrc/distributed/c10d/reducer.cpp: static_graph_first_iteration",
            f"{_ISSUES}/pull/187732",
        ),
    )
}


def why_wrong(schedule: str, wrapping: str, microbatches: int) -> tuple[str, ...]:
    """The `MECHANISMS` at work where `wrapping` meets `schedule`, on two ranks; () if it is right.

    wrapping: one of `WRAPPINGS`. Those that make gradients wrong come before those that raise.
    Raises ValueError for a schedule that is not known, or cannot have so few microbatches.
    """
    stages = _stages(schedule, microbatches)
    split = [kinds for index, kinds in stages.items() if index and "I" in kinds]
    if wrapping == "fully_shard each layer":
        return ("resharded",) if any(map(_finds_sharded, split)) else ()
    if wrapping == "DDP static_graph":
        return ("learned nothing",) if len(stages) > 1 else ()
    if wrapping not in ("DDP", "DDP find_unused"):
        return ()
    # autograd.grad ends the step of a stage whose last backward is a W
    unreduced = [kinds for kinds in split if kinds[-1] == "W"]
    found = ["no hooks"] if unreduced else []
    if wrapping == "DDP":
        hooked = [_with_hooks(index, kinds) for index, kinds in stages.items()]
        found += ["armed early"] if any(map(_reduces_twice, hooked)) else []
    elif any("B" in kinds for kinds in unreduced):
        found += ["all unused"]
    return tuple(found)


def _stages(schedule: str, microbatches: int) -> dict[int, str]:
    """For each stage the kinds of its actions, in order: "FFIWIW"."""
    kinds: dict[int, str] = {}
    for actions in action_lists(PipelinePlan(schedule, 2, microbatches)).values():
        for together in actions:
            for action in together:
                kinds[action.stage] = kinds.get(action.stage, "") + action.kind
    return kinds


def _finds_sharded(kinds: str) -> bool:
    """Whether an I comes right after a forward, which has left the layers sharded."""
    shards = [kind for kind in kinds if kind != "W"]  # that leave layers sharded, or not
    return ("F", "I") in pairwise(shards)


def _with_hooks(index: int, kinds: str) -> str:
    """Only forward passes, and "H": backward passes that run the hooks of parameters.

    Stage 0 has no input gradient to hurry for: its I does nothing and its W is all of backward.
    """
    if index == 0:
        return kinds.replace("I", "").replace("W", "H").replace("B", "H")
    last = kinds[-1] if kinds[-1] == "W" else ""  # nothing is reduced at such an end
    return kinds.replace("I", "").replace("W", "").replace("B", "H") + last


def _reduces_twice(hooked: str) -> bool:
    """Whether the first and the last backward of a step reduce, with no forward between them.

    A forward between them would rebuild the buckets in time.
    """
    first, last = hooked.find("H"), hooked.rfind("H")
    ends = hooked.endswith("H") and first < last
    return ends and "F" not in hooked[first:last]
