"""Where ranks run, and how they work together: placement, meshes, pipelines, data parallelism."""

from rankbook.later import later
from rankbook.parallel.placement import Placement, init, place

# imported when asked for: torch's pipelining and DTensor take a second or two to import, and
# every live rank imports `placement` before its first cell
_LATER = {
    "Action": "timeline",
    "Backward": "overlap",
    "Durations": "simulator",
    "JoinEvent": "joining.timeline",
    "JoinTimeline": "joining.timeline",
    "Outcome": "wrappings",
    "OverlapRecorder": "overlap",
    "Pipeline": "pipeline",
    "PipelinePlan": "plan",
    "RunningMean": "joining.running_mean",
    "Schedule": "schedules",
    "SleepingStage": "sleeping",
    "Task": "tasks",
    "Timeline": "timeline",
    "action_lists": "tasks",
    "WRAPPINGS": "wrappings",
    "average_gradients": "replicas",
    "bubble": "simulator",
    "clip_grad_norm": "clipping",
    "cut": "stages",
    "find_schedule": "schedules",
    "record": "recorder",
    "record_join": "joining.recorder",
    "schedule_names": "schedules",
    "simulate": "simulator",
    "simulate_lists": "simulator",
    "sleeping_loss": "sleeping",
    "sleeping_stages": "sleeping",
    "split_layers": "stages",
    "stage_module": "stages",
    "sweep": "simulator",
    "traced_modules": "stages",
    "try_wrapping": "wrappings",
    "wrap": "wrappings",
}

__all__ = ["Placement", "init", "place", *_LATER]
__getattr__ = later(__name__, _LATER)


def __dir__() -> list[str]:
    return __all__
