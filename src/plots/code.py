"""Code on a page: from its own file, beside what it was, or with what it printed elsewhere."""

import difflib
import html
import inspect
import textwrap
from collections.abc import Mapping

LOOK = {  # half transparent: they suit a light page and a dark one
    "+": "background: rgba(46, 160, 67, 0.22)",
    "-": "background: rgba(224, 92, 48, 0.22)",
    " ": "",
}
# a long line goes on below, further to the right, so that a phone shows all of it
CODE = "white-space: pre-wrap; overflow-wrap: anywhere; text-indent: -2em; padding-left: 2em"


class Listing:
    """The source of functions, classes or modules, or given as text, one after the other."""

    def __init__(self, *objects):
        self._objects = objects

    def __repr__(self) -> str:
        return "\n\n".join("\n".join(_source(thing)) for thing in self._objects)

    def _repr_markdown_(self) -> str:
        return f"```python\n{self!r}\n```"


def listing(*objects) -> Listing:
    """What a notebook shows as the highlighted source of functions, classes or modules, or text."""
    return Listing(*objects)


class LoopDiff:
    """Lines of code with the sign of what happened to each: "-" taken out, "+" put in, " " kept.

    A notebook shows it as a table, ``print`` as lines.
    """

    def __init__(self, lines: list[tuple[str, str]]):
        self.lines = lines

    @property
    def removed(self) -> list[str]:
        """The lines that only the first source has, without their indentation."""
        return [line.strip() for sign, line in self.lines if sign == "-"]

    @property
    def added(self) -> list[str]:
        """The lines that only the second source has, without their indentation."""
        return [line.strip() for sign, line in self.lines if sign == "+"]

    def __repr__(self) -> str:
        return "\n".join(f"{sign} {line}".rstrip() for sign, line in self.lines)

    def _repr_html_(self) -> str:
        rows = "".join(_row(sign, line) for sign, line in self.lines)
        kept = len(self.lines) - len(self.removed) - len(self.added)
        count = f"lines: {len(self.removed)} out, {len(self.added)} in, {kept} the same"
        look = "width: 100%; border-collapse: collapse; font-size: 0.85em"
        return (
            f'<table class="table" style="{look}">'
            f'<caption style="text-align: left">{count}</caption><tbody>{rows}</tbody></table>'
        )


def loop_diff(before, after) -> LoopDiff:
    """The diff that makes `before` into `after`: functions, classes, or source as text.

    Docstrings count as lines, too. The common indentation of each is left out.
    """
    old, new = _source(before), _source(after)
    lines = []
    for line in difflib.Differ().compare(old, new):
        if line[0] in LOOK:  # lines with "?" only point at characters
            lines.append((line[0], line[2:]))
    return LoopDiff(lines)


def _source(thing) -> list[str]:
    text = thing if isinstance(thing, str) else inspect.getsource(thing)
    return textwrap.dedent(text).rstrip().splitlines()


def _row(sign: str, line: str) -> str:
    indent = len(line) - len(line.lstrip())
    code = html.escape(line.lstrip())
    left = f"padding: 0 0.3em; text-align: left; vertical-align: top; {LOOK[sign]}"
    right = f"{left}; {CODE.replace('padding-left: 2em', f'padding-left: {2 + 0.6 * indent}em')}"
    return (
        f'<tr><td style="{left}; width: 1.5em"><code>{sign.replace("-", "−")}</code></td>'
        f'<td style="{right}"><code style="background: none; border: 0; padding: 0; '
        f'color: inherit; white-space: inherit">{code or "&nbsp;"}</code></td></tr>'
    )


class RecordedCells:
    """Recorded cells, shown by a notebook as code and text and by ``print`` as lines."""

    def __init__(self, cells: list[Mapping]):
        self._cells = cells

    def __repr__(self) -> str:
        parts = (part for cell in self._cells for part in (cell["source"], cell["output"]))
        return "\n\n".join(part for part in parts if part)

    def _repr_markdown_(self) -> str:
        parts = []
        for cell in self._cells:
            parts.append(f"```python\n{cell['source']}\n```")
            if cell["output"]:
                parts.append(f"```text\n{cell['output']}\n```")
        return "\n\n".join(parts)


def recorded_cells(result: Mapping, *names: str) -> RecordedCells:
    """The cells and functions `names` of `result`, such as ``recorded("legacy")[0]``.

    Functions are those of the program that the cells started, where one was recorded. Raises
    KeyError for a name that was not.
    """
    known = {**result["cells"], **result.get("program", {})}
    return RecordedCells([known[name] for name in names])
