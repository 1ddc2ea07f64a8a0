"""What the programs' command lines have in common: a parser that raises, and kinds of numbers.

Each program reads its line once into a frozen dataclass of its own, `Options`, checked before
anything is loaded or any rank waits.
"""

import argparse
import dataclasses
import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Configuration = TypeVar("Configuration", bound="DataclassInstance")


class Parser(argparse.ArgumentParser):
    """One that raises ValueError, as the checks after it do; every rank reads the same line."""

    def __init__(self, prog: str, description: str):
        """Options are not completed: what looks like torchrun's own would be taken for it."""
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise ValueError with `message`, where argparse would leave."""
        raise ValueError(message)


def ranks(start: str) -> int:
    """How many ranks torchrun has described. start: a line that has it do so.

    Raises ValueError where it has described none.
    """
    if "WORLD_SIZE" not in os.environ:
        raise ValueError(f"no process group is described here; start it with torchrun: {start}")
    return int(os.environ["WORLD_SIZE"])


def typed(kind: type[Configuration], parsed: argparse.Namespace, **made: Any) -> Configuration:
    """A `kind`, a dataclass whose fields are what the parser read; `made` are those worked out.

    What the parser read besides is left out: what it stands for is in `made`. Raises TypeError
    where a field is neither read nor made: a mistake of the program, not of its user.
    """
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in vars(parsed).items() if name in names} | made)


def positive(text: str) -> int:
    """A whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number of 1 or more")
    return int(text)


def natural(text: str) -> int:
    """A whole number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no whole number of 0 or more")
    return int(text)


def rate(text: str) -> float:
    """A number above 0."""
    return _within(text, lambda value: 0 < value < math.inf, "above 0")


def seconds(text: str) -> float:
    """A number of 0 or more."""
    return _within(text, lambda value: 0 <= value < math.inf, "of 0 or more")


def share(text: str) -> float:
    """A number from 0 to below 1."""
    return _within(text, lambda value: 0 <= value < 1, "from 0 to below 1")


def _within(text: str, holds: Callable[[float], bool], which: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not holds(value):
        raise argparse.ArgumentTypeError(f"{text} is no number {which}")
    return value
