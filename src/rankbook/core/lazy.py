"""Packages whose names are imported when they are asked for: some of their files load slowly."""

import ast
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any


def attach(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and the ``__dir__`` of `package`, whose ``__init__.py`` is `file`.

    The names are those that the file imports under ``if TYPE_CHECKING:``. Type checkers and editors
    read these imports as they stand; at run time each happens when its name is first asked for.
    A name must not be that of a file of the package: importing the file would put it in its
    place. Source: https://peps.python.org/pep-0562/
    """
    homes = _promised(Path(file))

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return find, lambda: sorted(homes)


def _promised(file: Path) -> dict[str, str]:
    """The module of each name that `file` imports under ``if TYPE_CHECKING:``."""
    return {
        alias.name: statement.module
        for block in ast.parse(file.read_text("utf-8")).body
        if isinstance(block, ast.If) and getattr(block.test, "id", "") == "TYPE_CHECKING"
        for statement in block.body
        if isinstance(statement, ast.ImportFrom) and statement.module
        for alias in statement.names
    }
