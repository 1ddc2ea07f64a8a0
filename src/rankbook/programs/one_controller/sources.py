"""The source of the programs, for machines without Monarch, which cannot import them."""

import ast
import textwrap
from pathlib import Path
from typing import TypeGuard

FILES = ("ranks.py", "first.py", "careful.py")


def source(name: str) -> str:
    """The source of a class or function of the programs, or of a method: "Careful.step".

    Raises KeyError for a name that they have not.
    """
    text, part = _found(name)
    begin = min([part.lineno, *(d.lineno for d in getattr(part, "decorator_list", ()))])
    return "\n".join(text.splitlines()[begin - 1 : part.end_lineno])


def code_lines(text: str) -> int:
    """How many lines of a source are code: neither blank, nor a comment, nor a docstring."""
    texts = (part for part in ast.walk(ast.parse(textwrap.dedent(text))) if _is_text(part))
    told = {n for part in texts for n in range(part.lineno, (part.end_lineno or 0) + 1)}
    numbered = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and line.strip()[0] != "#" for n, line in numbered if n not in told
    )


def _found(name: str) -> tuple[str, ast.stmt]:
    for file in FILES:
        text = Path(__file__).with_name(file).read_text("utf-8")
        within: list[ast.stmt] = ast.parse(text).body
        part: ast.stmt | None = None
        for word in name.split("."):
            part = next((p for p in within if getattr(p, "name", None) == word), None)
            within = getattr(part, "body", [])
        if part is not None:
            return text, part
    raise KeyError(f"the programs of one_controller have no {name}")


def _is_text(part: ast.AST) -> TypeGuard[ast.Expr]:
    return (
        isinstance(part, ast.Expr)
        and isinstance(part.value, ast.Constant)
        and isinstance(part.value.value, str)
    )
