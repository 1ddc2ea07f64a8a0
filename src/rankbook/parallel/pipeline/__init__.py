"""Pipelines: stages, the schedules that run them, what each rank did and when, and a simulator.

::

    plan = PipelinePlan("1f1b", ranks=4, microbatches=8)
    simulate(plan, Durations(forward=1, backward=2))     # a Timeline, without any rank
    Pipeline(plan, stages, device).step(tokens, targets)  # the same schedule, live
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

# imported when asked for: torch's pipelining takes a second or two to import, and a plan needs no
# torch at all
if TYPE_CHECKING:
    from rankbook.parallel.pipeline.calibration import cores_taken, measure_overheads
    from rankbook.parallel.pipeline.durations import Durations, Overheads
    from rankbook.parallel.pipeline.holding import SavedBytes, activations_in_flight, gaps, peak
    from rankbook.parallel.pipeline.pipeline import Pipeline
    from rankbook.parallel.pipeline.plan import PipelinePlan
    from rankbook.parallel.pipeline.planned_actions import PlannedAction, action_lists
    from rankbook.parallel.pipeline.recorder import record
    from rankbook.parallel.pipeline.schedules import Schedule, find_schedule, schedule_names
    from rankbook.parallel.pipeline.simulator import bubble, simulate, simulate_lists, sweep
    from rankbook.parallel.pipeline.sleeping import SleepingStage, sleeping_loss, sleeping_stages
    from rankbook.parallel.pipeline.stages import (
        keep_stage,
        split_layers,
        stage_module,
        traced_modules,
    )
    from rankbook.parallel.pipeline.timeline import Action, Timeline

__getattr__, __dir__ = attach(__name__, __file__)
