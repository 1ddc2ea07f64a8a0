"""What a proof has found: the same on all ranks, in words and in numbers."""

from collections import Counter
from dataclasses import dataclass

SHOWN = 4  # names of wrong tensors in the second line
PLURAL = {
    "before": "{} of {} parameters and buffers differ before the step",
    "gradient": "{} of {} gradients are wrong",
    "clipped": "{} of {} clipped gradients are wrong",
    "after": "{} of {} parameters are wrong after the step",
    "buffer": "{} of {} buffers are wrong after the step",
}


@dataclass(frozen=True)
class Difference:
    """One thing that differs from the twin, and how.

    kind: "before", "loss", "gradient", "norm", "clipped", "after" or "buffer". name: the
    parameter's, as in the twin; "" for the loss and the norm. says: how it differs. error: the
    relative difference in the 2-norm; 1 where a gradient is missing. ratio: where the direction
    agrees, how many times the twin's it is. ranks: those on which it differs. step: 1 is the first.
    """

    kind: str
    name: str
    says: str
    error: float
    ratio: float | None = None
    ranks: tuple[int, ...] = ()
    step: int = 1

    def __str__(self) -> str:
        later = f"step {self.step}: " if self.step > 1 else ""
        return f"{later}{self.name}: {self.says}" if self.name else f"{later}{self.says}"


@dataclass(frozen=True, repr=False)
class Report:
    """All that `prove` has compared. `print(report)` says it in a line or a few.

    differences: what differs, the first first: parameters before the step, loss, gradients in the
    order in which the twin's backward produced them, norm, clipped gradients, parameters after
    the step, buffers. compared: how many of each kind were. largest: the largest relative
    difference of anything, wrong or right. tolerance: up to where that counts as rounding.
    notes: what weakens the proof, or may explain what it found.
    """

    differences: tuple[Difference, ...]
    compared: dict[str, int]
    largest: float
    tolerance: float
    notes: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether nothing differs."""
        return not self.differences

    @property
    def first(self) -> Difference | None:
        """The first that differs, if something does: the nearest to the cause."""
        return self.differences[0] if self.differences else None

    def raise_if_wrong(self) -> None:
        """Raise AssertionError, which says what `print(report)` says, if something differs."""
        if not self.right:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        lines = [*(self._wrong() if self.differences else self._right())]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])

    __repr__ = __str__

    def _right(self) -> list[str]:
        of = self.compared
        steps = "a step" if of.get("steps", 1) == 1 else f"{of['steps']} steps"
        words = [
            "loss" * bool(of.get("loss")),
            _count(of.get("gradient", 0), "gradient"),
            "norm" * bool(of.get("norm")),
            _count(0 if of.get("gradient") else of.get("clipped", 0), "clipped gradient"),
            _count(of.get("after", 0), "parameter") + f" after {steps}" if of.get("after") else "",
            _count(of.get("buffer", 0), "buffer"),
        ]
        said = ", ".join(word for word in words if word)
        off = f"largest difference {self.largest:.0e}" if self.largest else "identical"
        return [f"right: {said}; {off}"]

    def _wrong(self) -> list[str]:
        lines = [f"WRONG: {self.first}"]
        first = self.differences[0]
        for kind, count in Counter(d.kind for d in self.differences).items():
            names = list(dict.fromkeys(d.name for d in self.differences if d.kind == kind))
            if kind in ("loss", "norm"):
                if first.kind != kind:
                    lines += [f"  {d}" for d in self.differences if d.kind == kind]
            elif count > 1 or first.kind != kind:
                more = ", …" * (len(names) > SHOWN)
                said = PLURAL[kind].format(len(names), self.compared.get(kind, len(names)))
                lines.append(f"  {said}: {', '.join(names[:SHOWN])}{more}")
        return lines


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}" if number else ""
