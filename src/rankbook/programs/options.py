"""How a program declares its options: each once, as a field of its frozen dataclass `Options`.

The parser is made of the fields; the line is read once, and checked before anything is loaded or
any rank waits.
"""

import argparse
import dataclasses
import os
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from rankbook.programs.number_types import positive_float

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Configuration = TypeVar("Configuration", bound="DataclassInstance")


def option(
    kind: Callable[[str], Any] = str,
    default: Any = None,
    *,
    flag: str | None = None,
    group: str | None = None,
    **words: Any,
) -> Any:
    """A field that the command line may say: ``--save-every`` for ``save_every``, or `flag`.

    kind: makes the value from the text, or raises ArgumentTypeError; bool: there is no text, and
    the value is whether the option is there. group: a line has one of those of a group. words:
    metavar, choices, nargs and help as for argparse's ``add_argument``.
    """
    words |= {"action": "store_true"} if kind is bool else {"type": kind}
    default = False if kind is bool else default
    metadata = {"flag": flag, "group": group, "words": words}
    return dataclasses.field(default=default, metadata=metadata)


def backend_option(help: str = "(auto)") -> Any:
    """``--backend``: of the process group."""
    return option(default="auto", choices=["auto", "gloo", "nccl"], help=help)


def timeout_option(seconds: float = 600.0) -> Any:
    """``--timeout``: the seconds that a rank waits for a silent one."""
    text = f"for a silent rank ({seconds:g})"
    return option(positive_float, seconds, metavar="SECONDS", help=text)


class Parser(argparse.ArgumentParser):
    """One that raises ValueError, as the checks after it do; every rank reads the same line."""

    def __init__(self, prog: str, description: str, *kinds: "type[DataclassInstance]"):
        """Takes what the dataclasses `kinds` have as `option`.

        Options are not completed: what looks like torchrun's own would be taken for it.
        """
        super().__init__(prog=prog, description=description, allow_abbrev=False)
        for kind in kinds:
            self.add_options(kind)

    def add_options(self, kind: "type[DataclassInstance]") -> None:
        """Add each field of the dataclass `kind` that is an `option`, in their order."""
        groups = defaultdict(self.add_mutually_exclusive_group)
        for field in dataclasses.fields(kind):
            if said := field.metadata:
                flag = said["flag"] or f"--{field.name.replace('_', '-')}"
                to = groups[said["group"]] if said["group"] else self
                to.add_argument(flag, dest=field.name, default=field.default, **said["words"])

    def error(self, message: str) -> NoReturn:
        """Raise ValueError with `message`, where argparse would leave."""
        raise ValueError(message)


def world_size_from_env(start: str) -> int:
    """How many ranks torchrun has described. start: a line that has it do so.

    Raises ValueError where it has described none.
    """
    if "WORLD_SIZE" not in os.environ:
        raise ValueError(f"no process group is described here; start it with torchrun: {start}")
    return int(os.environ["WORLD_SIZE"])


def from_namespace(
    kind: type[Configuration], parsed: argparse.Namespace, **made: Any
) -> Configuration:
    """A `kind`, a dataclass whose fields are what the parser read; `made` are those worked out.

    What the parser read besides is left out: what it stands for is in `made`. Raises TypeError
    where a field is neither read nor made: a mistake of the program, not of its user.
    """
    names = {field.name for field in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in vars(parsed).items() if name in names} | made)
