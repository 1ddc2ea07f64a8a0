"""Where ranks run, and how they work together: placement, meshes, pipelines, data parallelism."""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

# imported when asked for: torch's pipelining and DTensor take a second or two to import, and a plan
# needs no torch at all
if TYPE_CHECKING:
    from rankbook.core.placement import Placement, init, place
    from rankbook.parallel.all_reduce_cost import (
        fit_alpha_beta,
        predict,
        time_all_reduce,
        time_messages,
        time_ping_pong,
    )
    from rankbook.parallel.calibration import cores_taken, measure_overheads
    from rankbook.parallel.clipping import clip_grad_norm
    from rankbook.parallel.durations import Durations, Overheads
    from rankbook.parallel.holding import SavedBytes, activations_in_flight, gaps, peak
    from rankbook.parallel.joining.recorder import record_join
    from rankbook.parallel.joining.running_mean import RunningMean
    from rankbook.parallel.joining.timeline import JoinEvent, JoinTimeline
    from rankbook.parallel.mechanisms import MECHANISMS, Mechanism, why_wrong
    from rankbook.parallel.overlap import BackwardPass, OverlapRecorder
    from rankbook.parallel.pipeline import Pipeline
    from rankbook.parallel.plan import PipelinePlan
    from rankbook.parallel.planned_actions import PlannedAction, action_lists
    from rankbook.parallel.recorder import record
    from rankbook.parallel.replicas import average_gradients
    from rankbook.parallel.schedules import Schedule, find_schedule, schedule_names
    from rankbook.parallel.simulator import bubble, simulate, simulate_lists, sweep
    from rankbook.parallel.sleeping import SleepingStage, sleeping_loss, sleeping_stages
    from rankbook.parallel.stages import keep_stage, split_layers, stage_module, traced_modules
    from rankbook.parallel.timeline import Action, Timeline
    from rankbook.parallel.trials import Outcome
    from rankbook.parallel.wrapping_trials import try_wrapping
    from rankbook.parallel.wrappings import WRAPPINGS, wrap

__getattr__, __dir__ = attach(__name__, __file__)
