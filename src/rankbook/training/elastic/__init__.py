"""Runs that go on in any world: steps that do not depend on it, signals, and what happened."""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.training.elastic.events import Events, audit, lineage, losses, read_events
    from rankbook.training.elastic.nccl import NcclFault, nccl_faults, nccl_waits
    from rankbook.training.elastic.preemption import PreemptionHandler
    from rankbook.training.elastic.step import Step, elastic_step

__getattr__, __dir__ = attach(__name__, __file__)
