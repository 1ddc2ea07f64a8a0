"""What the programs' command lines have in common: a parser that raises, and kinds of numbers."""

import argparse


class Parser(argparse.ArgumentParser):
    """One that raises ValueError, as the checks after it do; every rank reads the same line."""

    def __init__(self, prog: str, description: str):
        """Options are not completed: what looks like torchrun's own would be taken for it."""
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def error(self, message: str):
        """Raise ValueError with `message`, where argparse would leave."""
        raise ValueError(message)


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
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no number above 0")
    return value
