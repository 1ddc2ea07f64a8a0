"""What changed between two files, as the diff that everybody reads."""

import difflib
import inspect
from types import ModuleType


class Diff:
    """The lines of a unified diff; a notebook shows them coloured."""

    def __init__(self, lines: list[str]):
        self.lines = lines

    @property
    def counts(self) -> tuple[int, int]:
        """How many lines were taken out, and how many put in."""
        signs = [line[:1] for line in self.lines if line[:3] not in ("---", "+++")]
        return signs.count("-"), signs.count("+")

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_markdown_(self) -> str:
        return f"```diff\n{self!r}\n```"


def module_diff(before: ModuleType, after: ModuleType, context: int = 2) -> Diff:
    """The unified diff of the files of two modules, with `context` lines around a change."""
    lines, others = (inspect.getsource(module).splitlines() for module in (before, after))
    old, new = (f"{module.__name__.rpartition('.')[2]}.py" for module in (before, after))
    return Diff(list(difflib.unified_diff(lines, others, old, new, n=context, lineterm="")))
