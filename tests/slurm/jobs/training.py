"""The elastic program as a job, and what it has to have done in the end."""

from rankbook.testbed.faults.audit import (
    Reference,
    left_files,
    lost_steps,
    wrong_losses,
    wrong_parameters,
    wrong_samples,
)
from rankbook.testbed.faults.reference import read_parameters
from rankbook.training.elastic import losses, read_events
from tests.waiting import SOON, until

SAMPLES, STEPS = 18, 60  # 3 steps an epoch; enough to act on a job before it has done them
RUN = f"--samples {SAMPLES} --global-batch 6 --steps {STEPS} --save-every 1000 --backend gloo"
SETTINGS = (
    "OMP_NUM_THREADS=1 LAUNCH_WATCH=0.5 LAUNCH_HOLD=0 "
    "LAUNCH_RDZV=join_timeout=60,last_call_timeout=1,read_timeout=60,"
    "keep_alive_interval=1,keep_alive_max_attempt=5"
)


class Training:
    """The elastic program as a job of the cluster, and its record."""

    def __init__(self, cluster, name: str):
        self.cluster, self.checkpoints = cluster, cluster.folder / name / "checkpoints"
        self.record, self.job = cluster.folder / name / "events.jsonl", 0
        self.words = f"rankbook.programs.elastic {RUN} --checkpoint {self.checkpoints}"
        self.words += f" --events {self.record} --pace-until {self.record.parent / 'go'}"

    def submit(self, script: str, options: str = "", settings: str = "") -> None:
        line = f"{SETTINGS} {settings} sbatch --parsable {script} {self.words} {options}"
        self.job = int(self.cluster.login(line))

    def events(self) -> list[dict]:
        return read_events(self.record) if self.record.exists() else []

    def steps(self) -> list[int]:
        return [event["step"] for event in self.events() if event["event"] == "step"]

    def worlds(self) -> list[int]:
        """The world's sizes, one after the other."""
        sizes = [event["world_size"] for event in self.events() if event["event"] == "step"]
        return [size for before, size in zip([0, *sizes], sizes, strict=False) if size != before]

    def until_worlds(self, *sizes: int) -> None:
        """Wait until the world has had these sizes, and no others."""
        until(lambda: self.worlds() == [*sizes], lambda: self.cluster.log(self.job))

    def once(self) -> bool:
        """Whether no rank did a step again: what was done was saved when a node left."""
        done = [(e["step"], e["rank"]) for e in self.events() if e["event"] == "step"]
        return len(done) == len(set(done))

    def until_step(self, step: int, nodes: int = 1) -> None:
        """Wait until `nodes` nodes have done this step or a later one together."""

        def done() -> bool:
            steps = [event for event in self.events() if event["event"] == "step"]
            return any(e["step"] >= step and e["world_size"] >= nodes for e in steps)

        until(done, lambda: self.cluster.log(self.job))

    def start_again_now(self) -> None:
        """End the two minutes that Slurm waits with a job that goes back into the queue."""
        self.cluster.wait(self.job, "PENDING", SOON)
        # not at once: a node refuses a job that it has ended in this very second
        self.cluster.login(f"scontrol update JobId={self.job} StartTime=now+2")

    def finish(self) -> str:
        """What the job's log says at its end; from here on no step is held up."""
        self.record.parent.mkdir(parents=True, exist_ok=True)
        (self.record.parent / "go").touch()
        self.cluster.wait(self.job, "COMPLETED", SOON)
        assert "torch" not in self.cluster.login("ps -eo args"), "the job left processes"
        return self.cluster.log(self.job)

    def problems(self, reference: Reference, exactly: bool = False) -> list[str]:
        """Nothing lost, nothing twice, and the same numbers in the end."""
        events, wanted = self.events(), reference.parameters[STEPS]
        return [
            *lost_steps(events, STEPS),
            *wrong_samples(events, SAMPLES),
            *wrong_losses(events, reference),
            *wrong_parameters(read_parameters(self.checkpoints, STEPS), wanted, exactly),
            *left_files(self.checkpoints),
        ]

    def result(self) -> Reference:
        return Reference(losses(self.events()), {STEPS: read_parameters(self.checkpoints, STEPS)})
