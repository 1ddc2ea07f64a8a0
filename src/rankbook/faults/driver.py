"""Runs plans: train, let things go wrong, and see whether anything was lost."""

import contextlib
import functools
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from rankbook.faults import audit, kinds
from rankbook.faults.disk import CannotMount, SmallDisk
from rankbook.faults.job import CELL, Job, Stuck
from rankbook.faults.plan import Fault, Plan
from rankbook.faults.reference import SAMPLES, kind, program, read_parameters, run_reference
from rankbook.faults.run import Run, Strike
from rankbook.faults.victim import Blow, Victim
from rankbook.live.errors import UsageError
from rankbook.live.torchrun.session import Torchrun

PACE = 0.1  # seconds of a step: others can join while it trains
LONGER = 3  # times that a run is tried with steps twice as long
PATIENCE = 90.0  # seconds for what takes a few on a free machine
SOON = 5.0  # seconds until a process that was ended is gone


class TooShort(Exception):
    """The training was over before everything had gone wrong; it needs longer steps."""


class Driver:
    """Runs plans, one after the other, in folders of their own under `folder`.

    The folder of a run in which something was lost stays. torchrun, cold, cell: see `Job`; what
    comes out is compared with what the book's program gives when nothing goes wrong. say: is
    called with a line for each thing that happens.
    """

    def __init__(
        self,
        torchrun: Torchrun,
        folder: Path,
        cold: bool = False,
        cell: str = CELL,
        say: Callable[[str], object] = lambda line: None,
    ):
        self.torchrun, self.folder, self.cold = torchrun, Path(folder), cold
        self.cell, self.say = cell, say
        self._references: dict[int, audit.Reference] = {}

    def run(self, plan: Plan) -> Run:
        """Run `plan`, with longer steps if it is over too soon. Raises CannotMount."""
        for longer in range(LONGER):
            run = Run(plan, _new_folder(self.folder / f"seed-{plan.seed}"))
            try:
                self._run(run, PACE * 2**longer)
                break
            except TooShort as error:
                self.say(f"  again with longer steps: {error}")
                run.problems = [str(error)]
            except CannotMount:
                shutil.rmtree(run.folder)
                raise
        if not run.problems:
            shutil.rmtree(run.folder)
        return run

    def reference(self, world_size: int) -> audit.Reference:
        """The uninterrupted run on so many ranks, made once."""
        if world_size not in self._references:
            folder = _new_folder(self.folder / f"reference-{world_size}")
            self._references[world_size] = run_reference(self.torchrun, folder, world_size)
            shutil.rmtree(folder)
        return self._references[world_size]

    def _run(self, run: Run, pace: float) -> None:
        plan, place, began = run.plan, run.folder / "disk", time.monotonic()
        timeout = 4.0 if "worker_paused_long" in plan.kinds else 20.0
        arguments = program(place, plan.steps, pace, timeout, plan.sharded)
        with contextlib.ExitStack() as stack:
            disk = stack.enter_context(SmallDisk(place)) if "disk_full" in plan.kinds else None
            job = Job(self.torchrun, run.folder, arguments, plan.workers, self.cold, cell=self.cell)
            stack.enter_context(contextlib.closing(job))
            start = functools.partial(start_all, job)
            checkpoints = kind(plan.sharded)(place / "checkpoints")
            victim = Victim(job, start, checkpoints, timeout, disk)
            try:
                self._live_through(run, victim)
                self._audit(run, job.finish(PATIENCE), victim)
            except (Stuck, UsageError) as error:
                run.problems.append(str(error))
            run.given_up = job.given_up
            job.close()
            job.write_logs()
            if run.problems and disk:  # what is on it goes with it
                shutil.copytree(place, run.folder / "disk-was")
        run.problems += _left_processes(job.events)
        run.seconds = time.monotonic() - began

    def _live_through(self, run: Run, victim: Victim) -> None:
        """Start the job, and let everything go wrong. Raises TooShort, Stuck, UsageError."""
        job, blow = victim.job, None
        start_all(job, run.plan.nodes)
        since = job.wait_step(1, PATIENCE)
        run.start = since["time"] - psutil.Process(since["pid"]).create_time()
        try:
            for fault in run.plan.faults:
                if blow and fault.seconds:
                    time.sleep(fault.seconds)
                else:
                    since = self._recovered(run, job, blow) if blow else since
                    _wait_more_steps(job, since["step"] + fault.steps)
                blow = self._strike(run, victim, fault)
            self._recovered(run, job, blow)
        except (Stuck, UsageError):
            if any(event["event"] == "end" for event in job.read()):
                raise TooShort(f"{run.plan.steps} steps were done too soon") from None
            raise

    def _strike(self, run: Run, victim: Victim, fault: Fault) -> Blow:
        step = victim.job.steps()[-1]["step"]
        self.say(f"  step {step}: {fault.kind}")
        blow = getattr(kinds, fault.kind)(victim, fault.draw)
        run.strikes.append(Strike(fault, step, blow.time))
        return blow

    def _recovered(self, run: Run, job: Job, blow: Blow) -> dict:
        """Wait for the step that shows it; return its event."""
        strike = run.strikes[-1]
        event = job.wait(
            f"a step after {strike.fault.kind}", lambda: _first(job.steps(), blow), PATIENCE
        )
        strike.seconds, strike.world_size = event["time"] - blow.time, event["world_size"]
        if blow.sign and not any(
            e["event"] == blow.sign and e["time"] > blow.time for e in job.events
        ):
            run.problems.append(f"{strike.fault.kind}: no event {blow.sign!r} came of it")
        return event

    def _audit(self, run: Run, codes: dict[str, int], victim: Victim) -> None:
        """All that has to hold; what does not is a problem of the run."""
        events, steps = victim.job.events, run.plan.steps
        run.worlds = sorted(audit.world_sizes(events))
        run.exactly = len(run.worlds) == 1
        reference = self.reference(run.worlds[0])
        run.problems += audit.bad_ends(codes)
        run.problems += audit.lost_steps(events, steps)
        run.problems += audit.wrong_samples(events, SAMPLES)
        run.problems += audit.wrong_losses(events, reference)
        run.problems += audit.left_files(victim.checkpoints.folder)
        try:
            parameters = read_parameters(victim.checkpoints.folder, steps, run.plan.sharded)
        except ValueError as error:
            run.problems.append(str(error))
        else:
            wanted = reference.parameters[steps]
            run.problems += audit.wrong_parameters(parameters, wanted, run.exactly)


def start_all(job: Job, nodes: int) -> None:
    """Start so many agents, as a scheduler does."""
    for name in kinds.NAMES[:nodes]:
        job.start(name)


def _wait_more_steps(job: Job, step: int) -> None:
    """Until the newest step is `step` or later; steps that are done again do not count."""
    job.wait(f"step {step}", lambda: job.steps()[-1]["step"] >= step, PATIENCE)


def _first(steps: list[dict], blow: Blow) -> dict | None:
    return next((e for e in steps if e["time"] > blow.time and blow.over(e)), None)


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
