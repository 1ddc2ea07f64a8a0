"""What each schedule asks of stages and microbatches, as `rankbook.parallel.pipeline` has it."""

from rankbook.parallel.pipeline import find_schedule, schedule_names


def data() -> dict:
    """By schedule: stages of a rank, whether it needs a microbatch a stage, and equal rounds."""
    kinds = {name: find_schedule(name) for name in schedule_names()}
    return {
        name: {"stages": kind.stages_per_rank, "fills": kind.fills, "rounds": kind.in_rounds}
        for name, kind in kinds.items()
    }
