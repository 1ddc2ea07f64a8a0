"""Cells that ran in another kernel, from a result file: their source, and what they printed."""

from collections.abc import Mapping


class KeptCells:
    """Recorded cells, shown by a notebook as code and text and by ``print`` as lines."""

    def __init__(self, cells: list[Mapping]):
        self._cells = cells

    def __repr__(self) -> str:
        return "\n\n".join(f"{cell['source']}\n\n{cell['output']}" for cell in self._cells)

    def _repr_markdown_(self) -> str:
        return "\n\n".join(
            f"```python\n{cell['source']}\n```\n\n```text\n{cell['output']}\n```"
            for cell in self._cells
        )


def kept_cells(result: Mapping, *names: str) -> KeptCells:
    """The cells `names` of `result`, such as ``recorded("legacy")[0]``. Raises KeyError."""
    return KeptCells([result["cells"][name] for name in names])
