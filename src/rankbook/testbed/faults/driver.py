"""Runs plans: train, let things go wrong, and see whether anything was lost."""

import contextlib
import functools
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from rankbook.live.errors import UsageError
from rankbook.live.torchrun.session import Torchrun
from rankbook.testbed.faults import audit
from rankbook.testbed.faults.disk import CannotInject, SmallDisk
from rankbook.testbed.faults.elastic_job import CELL, ElasticJob, Stuck
from rankbook.testbed.faults.fault_run import FaultRun, InjectedFault
from rankbook.testbed.faults.hard_kinds import KINDS
from rankbook.testbed.faults.kind import NAMES, TIMEOUT, FaultKind
from rankbook.testbed.faults.machines import Machines
from rankbook.testbed.faults.on_hosts import OnHosts
from rankbook.testbed.faults.plan import Fault, Plan
from rankbook.testbed.faults.reference import (
    SAMPLES,
    keeper,
    program,
    read_parameters,
    run_reference,
)
from rankbook.testbed.faults.slow_disk import SlowDisk
from rankbook.testbed.faults.target import Injection, Target, first_over

PACE = 0.1  # seconds of a step: others can join while it trains
LONGER = 3  # times that a run is tried, with steps twice as long each
ENDING = 330.0  # torch's agents wait up to 300 s for each other in the end, at an exit barrier
SOON = 60.0  # seconds until a process that was ended is gone


class TooShort(Exception):
    """The training was over before everything had gone wrong; it needs longer steps."""


class References:
    """Uninterrupted runs, each made once, also for drivers in several threads."""

    def __init__(self):
        self._made: dict[tuple, audit.Reference] = {}
        self._lock = threading.Lock()

    def get(self, make: Callable[..., audit.Reference], *which) -> audit.Reference:
        """The run that `make(*which)` makes, where there is none yet."""
        with self._lock:
            if which not in self._made:
                self._made[which] = make(*which)
            return self._made[which]


class Driver:
    """Runs plans, one after the other, in folders of their own under `folder`.

    The folder of a run in which something was lost stays. torchrun, cold, cell: see `ElasticJob`;
    what comes out is compared with what the book's program gives when nothing goes wrong. say: is
    called with a line for each thing that happens. references: of drivers that work side by side.
    """

    def __init__(
        self,
        torchrun: Torchrun,
        folder: Path,
        cold: bool = False,
        cell: str = CELL,
        say: Callable[[str], object] = lambda line: None,
        references: References | None = None,
    ):
        self.torchrun, self.folder, self.cold = torchrun, Path(folder), cold
        self.cell, self.say = cell, say
        self._references = references or References()

    def run(self, plan: Plan) -> FaultRun:
        """Run `plan`, with longer steps if it is over too soon. Raises CannotInject."""
        for longer in range(LONGER):
            run = FaultRun(plan, _new_folder(self.folder / f"seed-{plan.seed}"))
            try:
                self._run(run, PACE * 2**longer, last=longer == LONGER - 1)
                break
            except TooShort as error:
                self.say(f"  again with longer steps: {error}")
            except CannotInject:
                shutil.rmtree(run.folder)
                raise
        if not run.problems:
            shutil.rmtree(run.folder)
        return run

    def reference(self, world_size: int, sharded: bool = False) -> audit.Reference:
        """The uninterrupted run on so many ranks, whose model is whole or sharded."""
        return self._references.get(self._run_reference, world_size, sharded)

    def _run_reference(self, world_size: int, sharded: bool) -> audit.Reference:
        folder = _new_folder(self.folder / f"reference-{world_size}")
        reference = run_reference(self.torchrun, folder, world_size, sharded)
        shutil.rmtree(folder)
        return reference

    def _run(self, run: FaultRun, pace: float, last: bool) -> None:
        """Raises TooShort, but not the `last` time: then what was done is audited."""
        plan, place, began = run.plan, run.folder / "disk", time.monotonic()
        kinds = [KINDS[name] for name in plan.kinds]
        timeout = min((kind.timeout for kind in kinds), default=TIMEOUT)
        small = any(kind.small_disk for kind in kinds)
        arguments = program(place, plan.steps, pace, timeout, plan.sharded)
        with contextlib.ExitStack() as stack:
            disk = stack.enter_context(SmallDisk(place)) if small else None
            slow, session = SlowDisk(run.folder), self._session(kinds)
            clocks, hosts = getattr(session, "clocks", None), getattr(session, "hosts", None)
            if clocks is not None:
                stack.callback(clocks.reset)
            job = ElasticJob(
                session, run.folder, arguments, plan.workers, self.cold, cell=slow.cell + self.cell
            )
            stack.enter_context(contextlib.closing(job))
            start = functools.partial(start_all, job)
            checkpoints = keeper(plan.sharded)(place / "checkpoints")
            target = Target(job, start, checkpoints, timeout, slow, disk, clocks, hosts)
            try:
                try:
                    self._inject_all(run, target)
                except TooShort as error:
                    if not last:
                        raise
                    run.problems.append(f"not all of the faults could strike: {error}")
                self._audit(run, job.finish(ENDING), target)
            except (Stuck, UsageError) as error:
                run.problems.append(str(error))
            run.given_up = job.given_up
            job.close()
            job.write_logs()
            if run.problems and disk:  # what is on it goes with it
                shutil.copytree(place, run.folder / "disk-was")
        run.ask(6, _left_processes(job.events))
        run.seconds = time.monotonic() - began

    def _session(self, kinds: list[FaultKind]) -> Torchrun | OnHosts:
        """What launches the agents of a job that such faults will hit. Raises CannotInject."""
        if not any(kind.clocks or kind.hosts for kind in kinds):
            return self.torchrun
        if not isinstance(self.torchrun, Machines):
            raise CannotInject("a clock or a cable of its own needs Machines() for a Torchrun()")
        return self.torchrun.on_hosts() if any(kind.hosts for kind in kinds) else self.torchrun

    def _inject_all(self, run: FaultRun, target: Target) -> None:
        """Start the job, and let everything go wrong. Raises TooShort, Stuck, UsageError."""
        job, injection = target.job, None
        start_all(job, run.plan.nodes)
        since = job.wait_step(1)
        try:
            run.start = since["time"] - psutil.Process(since["pid"]).create_time()
            for fault in run.plan.faults:
                if injection and fault.seconds:
                    time.sleep(fault.seconds)
                else:
                    since = self._recovered(run, job, injection) if injection else since
                    _wait_more_steps(job, since["step"] + fault.steps)
                injection = self._inject(run, target, fault)
            if injection:
                self._recovered(run, job, injection)
        except (Stuck, UsageError, psutil.NoSuchProcess):
            if any(event["event"] == "end" for event in job.read()):
                raise TooShort(f"{run.plan.steps} steps were done too soon") from None
            raise

    def _inject(self, run: FaultRun, target: Target, fault: Fault) -> Injection:
        step = target.job.steps()[-1]["step"]
        self.say(f"  step {step}: {fault.kind}")
        injection = KINDS[fault.kind].inject(target, fault.draw)
        run.injected.append(InjectedFault(fault, step, injection.time))
        return injection

    def _recovered(self, run: FaultRun, job: ElasticJob, injection: Injection) -> dict:
        """Wait for the step that shows it; return its event."""
        injected = run.injected[-1]
        event = job.wait(f"a step after {injected.fault.kind}", lambda: first_over(job, injection))
        injected.seconds, injected.world_size = event["seen"] - injection.time, event["world_size"]
        if injection.sign and not any(
            e["event"] == injection.sign and e["seen"] > injection.time for e in job.events
        ):
            run.problems.append(f"{injected.fault.kind}: no event {injection.sign!r} came of it")
        return event

    def _audit(self, run: FaultRun, codes: dict[str, int | None], target: Target) -> None:
        """Ask all that has to hold, numbered as in the chapter; what does not is a problem."""
        # in the order in which they were written: clocks may have been wrong, on purpose
        events = [event | {"time": number} for number, event in enumerate(target.job.events)]
        steps = run.plan.steps
        run.worlds = sorted(audit.world_sizes(events))
        run.exactly = len(run.worlds) == 1
        reference = self.reference(run.worlds[0], run.plan.sharded)
        run.ask(1, audit.bad_ends(codes))
        run.ask(2, audit.lost_steps(events, steps))
        run.ask(3, audit.wrong_samples(events, SAMPLES))
        run.ask(4, audit.wrong_losses(events, reference))
        run.ask(6, audit.left_files(target.checkpoints.folder))
        try:
            parameters = read_parameters(target.checkpoints.folder, steps, run.plan.sharded)
        except ValueError as error:
            run.ask(5, [str(error)])
        else:
            wanted = reference.parameters[steps]
            run.ask(5, audit.wrong_parameters(parameters, wanted, run.exactly))


def start_all(job: ElasticJob, nodes: int) -> None:
    """Start so many agents, as a scheduler does."""
    for name in NAMES[:nodes]:
        job.start(name)


def _wait_more_steps(job: ElasticJob, step: int) -> None:
    """Until the newest step is `step` or later; steps that are done again do not count."""
    job.wait(f"step {step}", lambda: job.steps()[-1]["step"] >= step)


def _left_processes(events: list[dict]) -> list[str]:
    """Workers that still run after some seconds: one that is killed takes a moment to go."""
    deadline = time.monotonic() + SOON
    while (left := audit.left_processes(events)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _new_folder(path: Path) -> Path:
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path
