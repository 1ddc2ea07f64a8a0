"""From the facts of all ranks to what differs, in words. Every rank comes to the same."""

import math
from collections.abc import Iterator, Sequence

from rankbook.prove.facts import Facts
from rankbook.prove.report import Difference

WORDS = {
    "before": "value before the step",
    "gradient": "gradient",
    "clipped": "clipped gradient",
    "after": "change in the step",
    "buffer": "buffer after the step",
}
ALIKE = 1e-3  # a residual below this part of the tensor is the same direction, for a hint in words


def judge(kind: str, name: str, facts: dict[int, Facts]) -> Difference | None:
    """What is wrong with the tensor `name`, of which the ranks `facts` have a piece."""
    wrong = {rank: fact for rank, fact in facts.items() if fact.wrong}
    if not wrong:
        return None
    ranks = tuple(sorted(wrong))
    ratio = _ratio(list(wrong.values()))
    says = _says(kind, wrong, facts, ratio)
    if len(wrong) < len(facts):
        says += f" on rank{'s' * (len(ranks) > 1)} {_list(ranks)} only"
    return Difference(kind, name, says, relative(list(wrong.values())), ratio, ranks)


def relative(facts: Sequence[Facts]) -> float:
    """The 2-norm of the difference, of all pieces, by that of the twin's."""
    apart, twin = sum(f.apart for f in facts), sum(f.twin for f in facts)
    if not math.isfinite(apart):
        return math.inf
    return math.sqrt(apart / twin) if twin else (math.inf if apart else 0.0)


def _says(kind: str, wrong: dict[int, Facts], facts: dict[int, Facts], ratio: float | None) -> str:
    what, all_wrong = WORDS[kind], list(wrong.values())
    if any(not math.isfinite(f.apart) for f in all_wrong):
        return f"{what} is not finite"
    if all(f.missing for f in all_wrong):
        return f"no {what}"
    if not any(f.mine for f in all_wrong):
        return f"{what} is zero" if kind != "after" else "did not change in the step"
    if not any(f.twin for f in all_wrong):
        return (
            f"{what} is there, and the twin has none"
            if "grad" in kind
            else (f"{what} is not zero, and the twin's is")
        )
    off = f"{what} off by {percent(relative(all_wrong))}"
    if len(wrong) == len(facts) and (hint := _of_copies(wrong)):
        return f"{off}: {hint}"
    if ratio is not None and abs(ratio - 1) > 0.01:
        return f"{what} is {ratio:#.3g} times the twin's"
    return off


def _ratio(facts: list[Facts]) -> float | None:
    """How many times the twin's it is, if the direction is the twin's."""
    twin, along, mine = (sum(getattr(f, n) for f in facts) for n in ("twin", "along", "mine"))
    if not twin or not math.isfinite(mine) or not mine:
        return None
    ratio = along / twin
    rest = sum(f.mine - 2 * ratio * f.along + ratio**2 * f.twin for f in facts)
    return ratio if rest <= ALIKE**2 * mine else None


def _of_copies(wrong: dict[int, Facts]) -> str:
    """Where ranks hold different copies of a piece: which, and what they would give together."""
    pieces: dict[str, dict[int, Facts]] = {}
    for rank, fact in wrong.items():
        pieces.setdefault(fact.which, {})[rank] = fact
    for copies in pieces.values():
        groups = list(_groups(copies))
        if len(groups) < 2:
            continue
        some = [ranks[0] for ranks in groups]
        said = f"ranks {_list(some)} hold different ones"
        twin = copies[some[0]].twin_sketch
        total = [sum(column) for column in zip(*(copies[r].sketch for r in some), strict=True)]
        for many in range(1, len(some) + 1):
            if _alike([t / many for t in total], twin):
                words = {1: "sum is", len(some): "mean is"}.get(many, f"sum is {many} times")
                return f"{said}, whose {words} the twin's"
        return said
    return ""


def _groups(copies: dict[int, Facts]) -> Iterator[list[int]]:
    """The ranks, by what they hold."""
    left = sorted(copies)
    while left:
        first = copies[left[0]]
        same = [rank for rank in left if _alike(copies[rank].sketch, first.sketch)]
        yield same or left[:1]
        left = [rank for rank in left if rank not in (same or left[:1])]


def _alike(one: Sequence[float], other: Sequence[float]) -> bool:
    rest = math.sqrt(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)))
    return rest <= ALIKE * math.sqrt(sum(b * b for b in other))


def judge_number(
    kind: str, mine: Sequence[float | None], twin: float | None, tolerance: float
) -> tuple[Difference | None, float]:
    """What is wrong with the loss or the norm of the ranks, None where one has none; how far off.

    A loss may be that of each rank's share: then their mean is compared.
    """
    ranks = [rank for rank, value in enumerate(mine) if value is not None]
    known = [value for value in mine if value is not None]
    if twin is None or not known:
        return None, 0.0
    mean = sum(known) / len(known)
    off = [abs(value - twin) for value in known]
    apart = min(max(off), abs(mean - twin)) if kind == "loss" else max(off)
    error = apart / abs(twin) if twin else (math.inf if apart else 0.0)
    if apart <= tolerance * abs(twin):
        return None, error
    told = " and ".join(dict.fromkeys(f"{v:.5g}" for v in known[:4]))
    told += " …" * (len(known) > 4 and len(set(known)) > 1)
    says = f"{kind} {told}, and the twin's is {twin:.5g}"
    same = max(known) - min(known) <= tolerance * abs(twin)
    ratio = mean / twin if twin and (same or kind == "loss") else None
    if ratio is not None and math.isfinite(ratio):
        says += f": {ratio:#.3g} times" if abs(ratio - 1) > 0.1 else f": off by {percent(error)}"
    elif kind == "norm" and abs(math.hypot(*known) - twin) <= ALIKE * twin:
        says += ": each rank's own, whose squares add up to the twin's"
    return Difference(kind, "", says, error, ratio, tuple(ranks)), error


def percent(error: float) -> str:
    """48 %, 0.3 %, 2e-05 %."""
    if not math.isfinite(error):
        return "more than any number"
    return f"{100 * error:.3g} %" if error < 10 else f"{error:.3g} times its size"


def _list(ranks: Sequence[int]) -> str:
    words = [str(rank) for rank in ranks]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
