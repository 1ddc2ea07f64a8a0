"""The report, from what all ranks have told."""

import math
from dataclasses import dataclass, replace
from typing import Any

from rankbook.prove.facts import Facts
from rankbook.prove.part import Key
from rankbook.prove.report import Difference, Report
from rankbook.prove.twin import Modes, TwinStep
from rankbook.prove.verdict import judge, judge_number

Numbers = tuple[float | None, float | None]  # of a step: loss, norm


@dataclass
class Seen:
    """What is known before the step: all of the twin's names, what each rank told, the modes."""

    names: list[str]
    everyone: list[dict[str, Any]]
    tolerance: float
    twin_modes: Modes

    def before(self, sizes: dict[str, int]) -> Report | None:
        """The report, where parameters are lacking or not the twin's already."""
        facts = [each["before"] for each in self.everyone]
        found = []
        for name, size in sizes.items():
            have = {f.which: f.count for rank in facts for k, f in rank.items() if k[2] == name}
            if not have:
                found.append(Difference("before", name, "is on no rank", 1.0))
            elif (there := sum(have.values())) < size:
                says = f"only {100 * there / size:.3g} % of it is on the ranks"
                found.append(Difference("before", name, says, 1 - there / size))
        differing, _, largest = _judged("before", 1, facts)
        known = {d.name for d in found}
        differing = [d for d in differing if d.name not in known]
        if not found and not differing:
            return None
        compared = len(sizes.keys() | {key[2] for rank in facts for key in rank})
        advice = ("load the same values into the model and its twin before the proof",)
        notes = advice if differing else ()
        return Report((*found, *differing), {"before": compared}, largest, self.tolerance, notes)

    def notes(self, wrong: bool) -> list[str]:
        """What weakens the proof, or may explain what it found."""
        said = []
        strangers = [rank for rank, each in enumerate(self.everyone) if each["strangers"]]
        if strangers:
            count = len(self.everyone[strangers[0]]["strangers"])
            said.append(
                f"rank {strangers[0]}'s optimizer holds {count} tensors that are not parameters of "
                "the model: was it made before they were sharded or moved?"
            )
        modes = frozenset().union(*(each["modes"].training for each in self.everyone))
        if modes and modes != self.twin_modes.training:
            said.append("model and twin are not in the same mode: call train() or eval() on both")
        if wrong and any(m.drops for m in [self.twin_modes, *(e["modes"] for e in self.everyone)]):
            said.append(
                "dropout is on: shares draw other masks than the whole batch; call eval() on both"
            )
        if self.tolerance > 0.01:
            said.append(
                f"up to {100 * self.tolerance:.0f} % counts as rounding in this dtype; "
                "a proof in float32 sees more"
            )
        return said


def sum_up(
    seen: Seen,
    told: list[tuple[dict[Key, Facts], list[Numbers], list[Key]]],
    ways: list[TwinStep],
    max_norm: float | None,
) -> Report:
    """The report of all ranks.

    told: by rank, its facts, its losses and norms by step, and which gradients were parts of sums.
    """
    facts, numbers, sums = [t[0] for t in told], [t[1] for t in told], [t[2] for t in told]
    found: list[Difference] = []
    compared: dict[str, int] = {"steps": len(ways)}
    largest = 0.0
    for index, way in enumerate(ways):
        step = index + 1
        order = {"gradient": way.order, "clipped": way.order}
        for kind in ("loss", "gradient", "norm", "clipped", "after", "buffer"):
            if kind in ("loss", "norm"):
                mine = [rank[index][kind == "norm"] for rank in numbers]
                right = way.loss if kind == "loss" else way.norm
                one, off = judge_number(kind, mine, right, seen.tolerance)
                differing = [one] if one else []
                count = int(right is not None and any(value is not None for value in mine))
            else:
                differing, count, off = _judged(kind, step, facts)
                places = {name: i for i, name in enumerate(order.get(kind, seen.names))}
                differing += _not_alike(kind, step, facts, sums)
                differing.sort(key=lambda d: places.get(d.name, 0))
            found += [replace(d, step=step) for d in differing]
            compared[kind] = max(count, compared.get(kind, 0))
            largest = max(largest, off)
    notes = seen.notes(bool(found))
    last = ways[-1]
    if last.after and all(last.after[n].equal(ways[0].before[n]) for n in last.after):
        notes.append("the twin's parameters do not change: the learning rate is 0")
    if last.norm is not None and max_norm is not None and last.norm <= max_norm:
        notes.append(f"the norm, {last.norm:.3g}, is below max_norm: nothing was clipped")
    return Report(tuple(found), compared, largest, seen.tolerance, tuple(notes))


def _judged(
    kind: str, step: int, facts: list[dict[Key, Facts]]
) -> tuple[list[Difference], int, float]:
    """What differs of a kind; how many tensors were compared; the largest relative difference."""
    by_name: dict[str, dict[int, Facts]] = {}
    for rank, mine in enumerate(facts):
        for (at, what, name), fact in mine.items():
            if at == step and what == kind:
                by_name.setdefault(name, {})[rank] = fact
    judged = [judge(kind, name, ranks) for name, ranks in by_name.items()]
    offs = [f.off for ranks in by_name.values() for f in ranks.values()]
    return [d for d in judged if d], len(by_name), max(offs, default=0.0)


def _not_alike(
    kind: str, step: int, facts: list[dict[Key, Facts]], sums: list[list[Key]]
) -> list[Difference]:
    """Gradients that are parts of a sum on some ranks of their mesh, and not on others."""
    keys = {key for rank in sums for key in rank if key[:2] == (step, kind)}
    lost = sorted(key for key in keys if not any(key in rank for rank in facts))
    says = "gradient is Partial on some ranks and not on others"
    return [Difference(kind, key[2], says, math.inf) for key in lost]
