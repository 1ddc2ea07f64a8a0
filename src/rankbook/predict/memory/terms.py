"""Numbers that say where they come from: each with the formula it was computed by."""

from typing import NamedTuple


class Term(NamedTuple):
    """A value, in bytes or seconds, and the `formula` behind it in the field's letters."""

    value: float
    formula: str


class Terms(dict[str, Term]):
    """The terms of a sum, by name; `total` is the sum. `moment`: of a step's memory, when."""

    moment = ""

    @property
    def total(self) -> float:
        """The sum of all values."""
        return sum(term.value for term in self.values())

    def lines(self, scale: float = 1.0, digits: int = 2) -> list[str]:
        """A line for each term that is not nothing: value / scale, name, formula."""
        return [
            f"{term.value / scale:10.{digits}f}  {name:<14} {term.formula}"
            for name, term in self.items()
            if term.value
        ]
