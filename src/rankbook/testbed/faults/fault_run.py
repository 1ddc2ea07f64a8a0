"""What became of a plan: which faults were injected, how long each took, what was lost."""

from dataclasses import asdict, dataclass, field
from pathlib import Path

from rankbook.testbed.faults.plan import Fault, Plan, draw_plan


@dataclass
class InjectedFault:
    """A fault that was injected.

    step: the last one that was seen done. time: unix seconds. seconds: from then to the first
    step of those who went on; None if the next fault came first. world_size: in that step.
    """

    fault: Fault
    step: int
    time: float
    seconds: float | None = None
    world_size: int | None = None


@dataclass
class FaultRun:
    """How a plan went. problems: what was lost, one sentence each; none if nothing was.

    failed: the numbers of the audit's questions that found them; a run that did not go as planned
    has problems beside those.
    given_up: why the agents gave up, each time that the job was started anew, as a scheduler does.
    worlds: the world sizes of the steps that count. exactly: whether the parameters were compared
    to the bit. start: seconds from the birth of the first workers to their first step.
    """

    plan: Plan
    folder: Path
    problems: list[str] = field(default_factory=list)
    injected: list[InjectedFault] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    worlds: list[int] = field(default_factory=list)
    exactly: bool = False
    start: float = 0.0
    seconds: float = 0.0
    failed: list[int] = field(default_factory=list)

    def ask(self, question: int, found: list[str]) -> None:
        """Keep what an audit's question found: none if nothing was lost."""
        self.problems += found
        if found and question not in self.failed:
            self.failed.append(question)

    def __str__(self) -> str:
        """What a person needs to find the mistake: plan, what happened, where the record is."""
        lines = [str(self.plan), *(f"  LOST: {problem}" for problem in self.problems)]
        for injected in self.injected:
            took = "the next came first"
            if injected.seconds is not None:
                took = f"{injected.seconds:.1f} s to the next step, world {injected.world_size}"
            lines.append(f"  {injected.fault.kind} in step {injected.step}: {took}")
        lines += [f"  started anew, as the agents gave up: {why[:100]}" for why in self.given_up]
        if self.problems:
            lines.append(f"  record and logs: {self.folder}")
            if self.plan == draw_plan(self.plan.seed):
                lines.append(f"  again: python -m rankbook.testbed.faults --seed {self.plan.seed}")
        return "\n".join(lines)

    def as_dict(self) -> dict:
        """For a file: without the folder."""
        return {key: value for key, value in asdict(self).items() if key != "folder"}
