"""What all settings have in common: text, what it cannot say, and how ranks are started."""

from dataclasses import dataclass

from rankbook.parallel.pipeline.schedules import Schedule, find_schedule
from rankbook.predict.plan.machines import Machines
from rankbook.predict.plan.search import Plan


@dataclass(frozen=True)
class Settings:
    """A layout for one program.

    program: its name and the version whose words these are. kind: "command", "python" or "json".
    text: what to run, or to write. unsaid: a sentence for each thing that it cannot say, or says
    otherwise. brief: of `text` what the layout and the batch are, in few lines.
    """

    program: str
    kind: str
    text: str
    unsaid: tuple[str, ...] = ()
    brief: str = ""


def schedule(plan: Plan) -> Schedule:
    """What runs the plan's stages: GPipe, which idles as long, if 1F1B has too few microbatches."""
    setup = plan.setup
    kind = find_schedule("interleaved1f1b" if setup.chunks > 1 else setup.schedule)
    few = setup.microbatches < kind.least_microbatches(setup.pp * setup.chunks)
    return find_schedule("gpipe") if few else kind


def command(machines: Machines, program: list[str], width: int = 80) -> str:
    """How torchrun starts `program` on every GPU; on several nodes, the same lines on each.

    In lines that a shell joins again; an option and its value stay together.
    """
    nodes = machines.gpus // machines.node
    if nodes > 1:
        start = [f"--nnodes {nodes}", f"--nproc-per-node {machines.node}"]
        start += ["--rdzv-backend c10d", "--rdzv-endpoint $FIRST_NODE:29500"]
    else:
        start = ["--standalone", f"--nproc-per-node {machines.gpus}"]
    return " \\\n".join(filled(["torchrun", *start, *program], " ", width - 2, "    "))


def filled(words: list[str], between: str, width: int = 84, indent: str = "") -> list[str]:
    """`words` in lines, each word whole; the lines after the first are indented."""
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(between) + len(word) <= width:
            lines[-1] += between + word
        else:
            lines[-1] += between.rstrip()
            lines.append(indent + word)
    return lines
