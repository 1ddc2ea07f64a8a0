"""What is trained while things go wrong, and how it comes out when nothing does."""

import contextlib
from pathlib import Path

import torch

from rankbook.live.torchrun.session import Torchrun
from rankbook.programs.elastic.options import read
from rankbook.programs.elastic.tasks import make_task
from rankbook.testbed.faults.audit import Reference, bad_ends
from rankbook.testbed.faults.elastic_job import ElasticJob
from rankbook.testbed.faults.plan import EPOCH, MOST_STEPS
from rankbook.training.checkpoint import Checkpoints, ShardedCheckpoints, Store
from rankbook.training.checkpoint.store import step_of
from rankbook.training.elastic.events import losses

# the last batch of an epoch has 2 samples: less than some worlds have ranks
SAMPLES, BATCH = 50, 12


def program(
    folder: Path, steps: int, pace: float = 0.0, timeout: float = 60.0, sharded: bool = False
) -> list[str]:
    """The elastic program's arguments, with its checkpoints in `folder`."""
    options = {
        "checkpoint": folder / "checkpoints",
        "samples": SAMPLES,
        "global-batch": BATCH,
        "steps": steps,
        "save-every": 4,
        **({"pace": pace} if pace else {}),
        "timeout": timeout,
        "backend": "gloo",
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    return [*words, *["--sharded"] * sharded]


def read_parameters(
    checkpoints: Path, steps: int, sharded: bool = False
) -> dict[str, torch.Tensor]:
    """The parameters after the last step, from its checkpoint. Raises ValueError without one."""
    notes: list[str] = []
    saved = keeper(sharded)(checkpoints, say=notes.append).newest()
    if saved is None or saved.step != steps:
        found = f"the newest is of step {saved.step}" if saved else "there is none"
        raise ValueError(f"no good checkpoint of step {steps}: {found} {notes or ''}")
    model = make_task(read([*program(checkpoints.parent, steps)]), torch.device("cpu")).model
    saved.load_into(model)
    return model.state_dict()


def keeper(sharded: bool) -> type[Store]:
    """What keeps the checkpoints."""
    return ShardedCheckpoints if sharded else Checkpoints


def run_reference(
    torchrun: Torchrun, folder: Path, world_size: int, sharded: bool = False
) -> Reference:
    """Train as far as any plan does on so many ranks, with nothing going wrong."""
    words = program(folder, MOST_STEPS, sharded=sharded)
    words += ["--save-every", str(EPOCH), "--keep", str(MOST_STEPS)]
    job = ElasticJob(torchrun, folder, words, workers=world_size)
    with contextlib.closing(job):
        job.start("a")
        if problems := bad_ends(job.finish()):
            job.write_logs()
            raise RuntimeError(f"an uninterrupted run failed: {problems}; see {folder}")
    kept = keeper(sharded)(folder / "checkpoints")
    return Reference(losses(job.events), {step_of(p): _parameters(kept, p) for p in kept.paths()})


def _parameters(kept: Store, path: Path) -> dict[str, torch.Tensor]:
    model = make_task(read(program(path.parent, 1)), torch.device("cpu")).model
    kept.kind(step_of(path), kept.read_checked(path), path).load_into(model)
    return model.state_dict()
