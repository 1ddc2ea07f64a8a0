"""What a rank is executing, as it tells the notebook. Does not load torch."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Call:
    """What a rank is executing.

    op: the collective ("all_reduce"), "wait" or "backward", or None outside of communication.
    text: the call as the reader would write it, with dtypes and shapes for tensors.
    line: the line of the cell, counted from 1, the magic's line included; None if unknown.
    cpu: seconds of processor time that the rank has used: a rank that hangs uses none.
    number: the collective's number in its group, from 1; 0 if unknown.
    stack: where Python is, a line for each function, outermost first: "cell line 7, in load".
    """

    op: str | None = None
    text: str = ""
    line: int | None = None
    cpu: float = 0.0
    number: int = 0
    stack: tuple[str, ...] = ()

    def as_dict(self) -> dict:
        """For a message to the notebook."""
        return asdict(self)

    @property
    def place(self) -> str:
        """Call and line in words: ``all_reduce(float32 [4]), cell line 3``."""
        line = f"cell line {self.line}" if self.line else "outside of the cell"
        return f"{self.text}, {line}" if self.text else line
