"""Packages whose names are imported when they are asked for: some of their files load slowly."""

import importlib
from collections.abc import Callable, Mapping


def later(package: str, files: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of `package`: `files` names the file of each name, without ``.py``.

    A name must not be that of a file of the package: importing the file would put it in its
    place. Source: https://peps.python.org/pep-0562/
    """

    def find(name: str) -> object:
        if name not in files:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{package}.{files[name]}"), name)

    return find
