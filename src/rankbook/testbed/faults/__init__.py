"""Faults on purpose: jobs of several agents, what can go wrong with them, and what must not."""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.testbed.faults.disk import CannotInject, CannotMount
    from rankbook.testbed.faults.driver import Driver, References
    from rankbook.testbed.faults.elastic_job import QUICK, ElasticJob, Stuck
    from rankbook.testbed.faults.fault_run import FaultRun, InjectedFault
    from rankbook.testbed.faults.hard_kinds import KINDS
    from rankbook.testbed.faults.kind import FaultKind
    from rankbook.testbed.faults.machines import Machines
    from rankbook.testbed.faults.plan import Fault, Plan, draw_plan
    from rankbook.testbed.faults.target import Injection, Target

__getattr__, __dir__ = attach(__name__, __file__)
