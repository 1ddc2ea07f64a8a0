"""For torch's Join: a running mean that takes part in it, and a recorder of what it does."""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.parallel.joining.recorder import record_join
    from rankbook.parallel.joining.running_mean import RunningMean
    from rankbook.parallel.joining.timeline import JoinEvent, JoinTimeline

__getattr__, __dir__ = attach(__name__, __file__)
