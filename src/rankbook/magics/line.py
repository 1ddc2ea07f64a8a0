"""A magic's line: its words, its command, its options. A mistake in it is one sentence."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from IPython.core.magic_arguments import MagicArgumentParser

from rankbook.live.errors import UsageError


class LineParser(MagicArgumentParser):
    """Options of a magic's line, by argparse; a mistake in them raises UsageError.

    magic: with its percent signs and its command, as the sentence begins: ``%ranks start``.
    """

    def __init__(self, magic: str):
        super().__init__(prog=magic, add_help=False)

    def error(self, message):
        """Raise UsageError, where argparse would end the kernel."""
        raise UsageError(f"{self.prog}: {message}")


def split(magic: str, line: str) -> list[str]:
    """The words of a line, quoted as in a shell; raises UsageError, which begins with `magic`."""
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"{magic} {line.strip()}: {error}") from None


def command_of(
    magic: str, line: str, commands: Sequence[str], cell: str
) -> tuple[str, LineParser, list[str]]:
    """The command that a line begins with, a parser for its options, and the words of these.

    magic: ``%ranks``. cell: how a cell begins, for the sentence: ``%%ranks``. Raises UsageError
    if it is none of `commands`.
    """
    command, *words = split(magic, line) or [""]
    if command not in commands:
        what = f"{magic} {command} is unknown" if command else f"{magic} needs a command"
        known = f"{', '.join(commands[:-1])} or {commands[-1]}"
        raise UsageError(f"{what}; use {known}, or {cell} for a cell")
    return command, LineParser(f"{magic} {command}"), words


@dataclass
class RanksLine:
    """A ``%%ranks`` line: the ranks (None for all), and what is asked for this cell."""

    ranks: list[int] | None = None
    time: bool = False
    check: bool = True

    @classmethod
    def parse(cls, line: str) -> "RanksLine":
        """Take ``--time`` and ``--no-check`` out; what is left are ranks. Raises UsageError."""
        parsed, rest = cls(), []
        for word in line.split("#")[0].split():
            if word == "--time":
                parsed.time = True
            elif word == "--no-check":
                parsed.check = False
            elif word.startswith("--"):
                raise UsageError(f"%%ranks {word} is unknown; use --time or --no-check")
            else:
                rest.append(word)
        if text := " ".join(rest).strip("[]"):
            try:
                parsed.ranks = [int(part) for part in text.split(",")]
            except ValueError:
                raise UsageError(f"%%ranks {' '.join(rest)}: give ranks like 0 or 0,2") from None
        return parsed


@dataclass
class TorchrunLine:
    """A ``%%torchrun`` line: our own words, and the rest, which is torchrun's and the program's."""

    options: list[str] = field(default_factory=list)
    program: list[str] = field(default_factory=list)
    node: str = ""
    into: str = ""
    background: bool = False
    cold: bool = False

    @classmethod
    def parse(cls, line: str) -> "TorchrunLine":
        """Take ``--node``, ``--background``, ``--into`` and ``--cold`` out, up to ``--``.

        Raises UsageError for a name that is none, and for words that do not go together.
        """
        words = split("%%torchrun", line)
        cut = words.index("--") if "--" in words else len(words)
        parsed = cls(program=words[cut + 1 :])
        own = iter(words[:cut])
        for word in own:
            name, equals, value = word.partition("=")
            if word in ("--background", "--cold"):
                setattr(parsed, word[2:], True)
            elif name in ("--node", "--into"):
                value = value if equals else next(own, "")
                if not value.isidentifier() and not (name == "--node" and _is_node_name(value)):
                    raise UsageError(f"%%torchrun: {name} needs a name, such as {name} a1")
                setattr(parsed, name[2:], value)
            else:
                parsed.options.append(word)
        if parsed.background and not parsed.node:
            raise UsageError(
                "%%torchrun --background needs --node NAME, the name that %torchrun join takes"
            )
        if parsed.background and parsed.into:
            raise UsageError("%%torchrun: --into goes with %torchrun join for a background node")
        return parsed


def _is_node_name(text: str) -> bool:
    return text.replace("-", "").replace("_", "").isalnum()
