"""State that survives: checkpoints that are whole or absent, and runs that go on in any world."""

from rankbook.later import later

# imported when asked for: torch.distributed.checkpoint is slow to import, and every worker of an
# elastic job starts again with each change of the world
_LATER = {
    "CheckpointError": "checkpoints",
    "Checkpoints": "checkpoints",
    "Events": "events",
    "Kept": "checkpoints",
    "Notice": "notice",
    "ShardedCheckpoints": "sharded",
    "Step": "step",
    "audit": "events",
    "capture": "state",
    "elastic_step": "step",
    "lineage": "events",
    "load_newest": "state",
    "losses": "events",
    "read_events": "events",
    "restore": "state",
    "save_together": "state",
    "sync_folder": "whole",
    "write_whole": "whole",
}

__all__ = [*_LATER]
__getattr__ = later(__name__, _LATER)


def __dir__() -> list[str]:
    return __all__
