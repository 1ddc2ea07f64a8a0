"""Was anything lost? What has to hold when a run has ended, whatever went wrong on its way."""

from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from rankbook.training.elastic.events import audit, lineage, losses

LOSS_TOLERANCE = 1e-5
# Other world sizes add the same gradients in another order: some units in the last place a step,
# of parameters that are below 1.
PARAMETER_TOLERANCE = 1e-5


@dataclass(frozen=True)
class Reference:
    """An uninterrupted run: the loss of every step, the parameters after each epoch's last."""

    losses: dict[int, float]
    parameters: dict[int, dict[str, torch.Tensor]]


def lost_steps(events: list[dict], steps: int) -> list[str]:
    """Steps that no start of the workers did, or that nobody asked for."""
    done = set(lineage(events))
    wanted = set(range(1, steps + 1))
    return [f"step {step} was never done" for step in sorted(wanted - done)] + [
        f"step {step} is beyond the last, {steps}" for step in sorted(done - wanted)
    ]


def wrong_samples(events: list[dict], samples: int) -> list[str]:
    """Epochs in which not each of `samples` counted exactly once. All have to be whole.

    Also what makes it impossible to say: a share that is missing, two worlds at once.
    """
    try:
        epochs = audit(events, samples)
    except ValueError as error:
        return [str(error)]
    return [f"epoch {e}: {seen}" for e, seen in epochs.items() if not seen.exactly_once]


def wrong_losses(events: list[dict], reference: Reference) -> list[str]:
    """Steps whose loss is further than `LOSS_TOLERANCE` from the uninterrupted run's."""
    found = losses(events)
    apart = {s: abs(loss - reference.losses.get(s, float("inf"))) for s, loss in found.items()}
    wrong = [step for step, distance in apart.items() if not distance <= LOSS_TOLERANCE]
    if not wrong:
        return []
    worst = max(apart[step] for step in wrong)
    return [f"the loss of {len(wrong)} steps is off, first of step {wrong[0]}, by {worst:g}"]


def wrong_parameters(state: dict, wanted: dict, exactly: bool) -> list[str]:
    """Parameters (name -> tensor) that differ from the uninterrupted run's.

    exactly: to the last bit, as for one world size; otherwise within `PARAMETER_TOLERANCE`.
    """
    if state.keys() != wanted.keys():
        return [f"the parameters are {sorted(state)}, not {sorted(wanted)}"]
    problems = []
    for name, value in state.items():
        apart = (value.double() - wanted[name].double()).abs().max().item()
        same = torch.equal(value, wanted[name]) if exactly else apart <= PARAMETER_TOLERANCE
        if not same:
            rule = "to the bit" if exactly else f"within {PARAMETER_TOLERANCE:g}"
            problems.append(f"{name} is not the same {rule}: {apart:g} apart")
    return problems


def bad_ends(codes: dict[str, int | None]) -> list[str]:
    """Agents that nobody killed and that did not end with 0."""
    if not codes:
        return ["no agent was left to end"]
    return [f"the agent {node} ended with {code}" for node, code in codes.items() if code != 0]


def left_files(checkpoints: Path) -> list[str]:
    """What lies in the folder of checkpoints and is none."""
    return [
        f"{path.relative_to(checkpoints)} was left among the checkpoints"
        for path in sorted([*checkpoints.iterdir(), *checkpoints.glob(".world-*/*")])
        if not path.name.startswith(("step-", ".world-")) or path.suffix == ".tmp"
    ]


def left_processes(events: list[dict]) -> list[str]:
    """Workers that still run. A number that the system gave to a new process is none of them."""
    last = {event["pid"]: event.get("seen", event["time"]) for event in events}
    return [f"worker {pid} still runs" for pid, said in last.items() if _is_alive(pid, said)]


def world_sizes(events: list[dict]) -> set[int]:
    """The world sizes of the steps that count."""
    return {found[0]["world_size"] for found in lineage(events).values()}


def _is_alive(pid: int, said: float) -> bool:
    try:
        process = psutil.Process(pid)
        return process.create_time() <= said and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
