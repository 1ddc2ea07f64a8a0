"""One elastic job and the seven things that happen to it: the picture that page 41 opens with.

    python -m benchmarks.elastic_story

Up to three nodes with two workers each, on this machine, started as the page's magics start them:
nodes join, leave and are killed, and the job is started again. Then one process trains the same
steps undisturbed. Takes a minute, and writes book/results/elastic_story-cpu-2.json.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGKILL, SIGTERM, Signals
from tempfile import TemporaryDirectory

from benchmarks.record import write
from plots.events import elastic_table, grouped
from rankbook.live.torchrun.session import Torchrun
from rankbook.live.torchrun.spec import LaunchSpec
from rankbook.training.elastic.events import audit, losses, read_events

PROGRAM = "from rankbook.programs import elastic\nelastic.main()\n"
ELASTIC = (
    "--nnodes=1:3 --nproc-per-node=2 --max-restarts=9 --rdzv-conf "
    "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=5"
)
SAMPLES, BATCH = 110, 48  # an epoch has three steps
PATIENCE = 90.0  # seconds for anything to happen
KEPT = ("time", "event", "node", "rank", "world_size", "pid", "attempt", "step", "loss")
WHAT = (
    "One job of up to three nodes with two workers each, all on one machine under short settings: "
    "what happened to it, and what each fault cost"
)


class Story:
    """A job under torchrun whose ranks write down what they do, and what happened to it."""

    def __init__(self, folder: Path):
        self.torchrun, self.folder, self.faults = Torchrun(), folder, []

    def words(self, name: str, steps: int, pace: float = 0.0) -> list[str]:
        """The program's arguments for the run called `name`."""
        files = f"--checkpoint {self.folder}/{name} --events {self.folder}/{name}.jsonl"
        line = f"--samples {SAMPLES} --global-batch {BATCH} {files} --steps {steps} --pace {pace}"
        return f"{line} --save-every 5 --timeout 20".split()

    def start(self, *nodes: str, steps: int = 1000, background: bool = True) -> None:
        """Start an agent on each of `nodes`."""
        for node in nodes:
            spec = LaunchSpec(ELASTIC.split(), self.words("story", steps, pace=0.1), node)
            self.torchrun.run_node(spec, PROGRAM, show, background=background)

    def kill(self, node: str, whom: str, signum: Signals = SIGKILL) -> None:
        """Send a signal to the "agent" of `node`, to one "worker" of it, or to the whole "node"."""
        latest = grouped(self.events(), "attempt")[-1]
        pids = sorted({e["pid"] for e in latest if e["node"] == node})
        for pid in {"agent": [], "worker": pids[:1], "node": pids}[whom]:
            os.kill(pid, signum)
        if whom != "worker":
            self.torchrun.kill(node, signum)

    def events(self, name: str = "story") -> list[dict]:
        """What the ranks have written so far."""
        path = self.folder / f"{name}.jsonl"
        return read_events(path) if path.exists() else []

    def steps_of(self, world_size: int) -> int:
        """How many steps the latest world has made since the last fault; 0 if it is of another
        size."""
        since = self.faults[-1][0] if self.faults else 0.0
        steps = [e for e in self.events() if e["event"] == "step" and e["rank"] == 0]
        latest = [e for e in steps if e["attempt"] == steps[-1]["attempt"] and e["time"] > since]
        return len([e for e in latest if e["world_size"] == world_size])

    def fault(self, world_size: int, node: str, what: str) -> None:
        """Wait until a world of that size trains, and write down what is about to happen."""
        until(lambda: self.steps_of(world_size) >= 4, f"steps of {world_size} ranks")
        self.faults.append((time.time(), node, what))


def until(happened: Callable, what: str) -> None:
    """Wait; TimeoutError if that takes too long."""
    end = time.monotonic() + PATIENCE
    while not happened():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not within {PATIENCE:.0f} s")
        time.sleep(0.05)


def show(kind: str, content: object) -> None:
    """What the program prints is not needed."""


def tell(story: Story) -> int:
    """All that happens to the job; how many steps it has to do in all."""
    story.start("a")
    story.fault(2, "b", "joins")
    story.start("b")
    story.fault(4, "b", "worker killed")
    story.kill("b", "worker")
    story.fault(4, "b", "leaves (SIGTERM)")
    story.kill("b", "agent", SIGTERM)
    story.fault(2, "c", "joins, with b")
    story.start("b", "c")
    story.fault(6, "c", "node killed")
    story.kill("c", "node")
    story.fault(4, "a", "agent killed, and its store")
    story.kill("a", "agent")
    until(lambda: not any("running" in line for line in story.torchrun.status()), "the end")
    done = max(e["step"] for e in story.events() if e["event"] == "step")
    steps = 3 * (done // 3 + 5)  # whole epochs
    time.sleep(1.0)  # until somebody starts it again
    story.faults.append((time.time(), "a", "started again"))
    story.start("a", steps=steps, background=False)
    return steps


def alone(story: Story, steps: int) -> dict[int, float]:
    """The losses of one process that nobody disturbs."""
    spec = LaunchSpec(["--nproc-per-node=1"], story.words("alone", steps))
    story.torchrun.run(spec, PROGRAM, show)
    return losses(story.events("alone"))


def slim(events: list[dict]) -> list[dict]:
    """What a picture needs: the steps of rank 0, and each process's first and last event."""
    ends = [event for own in grouped(events, "pid") for event in (own[0], own[-1])]
    kept = [e for e in events if e in ends or (e["rank"] == 0 and e["event"] == "step")]
    zero = min(event["time"] for event in events)
    return [
        {name: e[name] for name in KEPT if name in e} | {"time": round(e["time"] - zero, 3)}
        for e in kept
    ]


def main() -> None:
    """Record the story, and write it down."""
    with TemporaryDirectory() as folder:
        story = Story(Path(folder))
        try:
            steps = tell(story)
            control = alone(story, steps)
        finally:
            story.torchrun.close()
        events = story.events()
    found = losses(events)
    off = max(abs(found[step] - loss) for step, loss in control.items())
    epochs = audit(events, SAMPLES).values()
    if off > 1e-5 or not all(epoch.exactly_once for epoch in epochs):
        raise SystemExit("elastic_story: the job is not the undisturbed run; nothing is written")
    zero = min(event["time"] for event in events)
    faults = [[round(time - zero, 3), node, what] for time, node, what in story.faults]
    table = elastic_table(events, story.faults)
    rows = [dict(zip(["no.", *table.head[1:]], row, strict=True)) for row in table.rows]
    print(table, f"{steps} steps, losses off by {off:.0e}", sep="\n")
    print(write("elastic_story-cpu-2", WHAT, rows, libraries=("torch",), kind="CPU", steps=steps,
                off=off, faults=faults, control=list(control.values()),
                events=slim(events)))  # fmt: skip


if __name__ == "__main__":
    main()
