"""Kinds of numbers that an option takes: argparse's ``type``. Each raises ArgumentTypeError."""

import argparse
import math
from collections.abc import Callable


def positive_int(text: str) -> int:
    """A whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number of 1 or more")
    return int(text)


def nonnegative_int(text: str) -> int:
    """A whole number of 0 or more."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no whole number of 0 or more")
    return int(text)


def positive_float(text: str) -> float:
    """A number above 0."""
    return _within(text, lambda value: 0 < value < math.inf, "above 0")


def nonnegative_float(text: str) -> float:
    """A number of 0 or more."""
    return _within(text, lambda value: 0 <= value < math.inf, "of 0 or more")


def fraction(text: str) -> float:
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
