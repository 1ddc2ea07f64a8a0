"""``%torchrun`` and ``%%torchrun``: parse, call, show. The work is done in `rankbook.live`."""

import shlex
import signal
import warnings
from dataclasses import dataclass, field

from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.core.magic_arguments import MagicArgumentParser

from rankbook.live.errors import CellFailed, UsageError
from rankbook.live.torchrun.launch import Order
from rankbook.live.torchrun.page import Page
from rankbook.live.torchrun.session import Torchrun

COMMANDS = ("status", "kill", "join", "logs", "stop")


@dataclass
class Line:
    """A ``%%torchrun`` line: our own words, and the rest, which is torchrun's."""

    options: list[str] = field(default_factory=list)
    program: list[str] = field(default_factory=list)
    node: str = ""
    into: str = ""
    background: bool = False
    cold: bool = False

    @classmethod
    def parse(cls, line: str) -> "Line":
        """Take ``--node``, ``--background``, ``--into`` and ``--cold`` out, up to ``--``."""
        words = _split(line)
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


class LineParser(MagicArgumentParser):
    """Options of a magic's line; a mistake in them is one sentence."""

    def error(self, message):
        """Raise UsageError, where argparse would end the kernel."""
        raise UsageError(f"%{self.prog}: {message}")


def _parser(command: str) -> LineParser:
    parser = LineParser(prog=f"torchrun {command}", add_help=False)
    if command == "kill":
        parser.add_argument("name")
        parser.add_argument("--signal", default="SIGTERM")
        parser.add_argument("--worker", type=int, default=None, metavar="RANK")
    if command in ("join", "logs"):
        parser.add_argument("name", nargs="?", default=None)
    if command == "join":
        parser.add_argument("--into", default="", metavar="NAME")
    return parser


@magics_class
class TorchrunMagics(Magics):
    """Cells as programs under the real torchrun."""

    launcher: Torchrun | None = None

    @line_cell_magic
    def torchrun(self, line, cell=None):
        """Run the cell as a program under torchrun, or steer agents in the background.

        %%torchrun [torchrun's options] [own options] [-- the program's arguments]
            without a rendezvous of your choice: --standalone, on the loopback interface only
            --into NAME        keep what the ranks hand to rankbook.publish in NAME
            --cold             every process loads torch itself, as in a terminal
            --node NAME        one of several agents on this machine, which find each other
            --background       go on at once; steer it by its name
        %torchrun status | logs [NAME] | join [NAME] [--into NAME] | stop
        %torchrun kill NAME [--signal SIGKILL] [--worker RANK]
        """
        if cell is not None:
            return self._cell(line, cell)
        command, *arguments = _split(line) or [""]
        if command not in COMMANDS:
            what = f"%torchrun {command} is unknown" if command else "%torchrun needs a command"
            raise UsageError(f"{what}; use {', '.join(COMMANDS)}, or %%torchrun for a cell")
        return getattr(self, f"_{command}")(_parser(command).parse_args(arguments))

    def _cell(self, line: str, cell: str):
        options = Line.parse(line)
        if not cell.strip():
            raise UsageError(
                "%%torchrun: the cell is empty; write the program under the first line"
            )
        # One line above the program, as in the notebook: line numbers agree.
        program = f"# %%torchrun {line}\n{cell}"
        _check_syntax(program)
        order = Order(options.options, options.program, options.node)
        with Page() as page:
            if options.node:
                run = (order, program, page.show, options.cold, options.background)
                result = self._torchrun.run_node(*run)
            else:
                result = self._torchrun.run(order, program, page.show, options.cold)
        if options.background:
            print(f"{options.node} runs in the background")
            return None
        return self._keep(result, options.into)

    def _keep(self, result, name: str = ""):
        if name:
            self.shell.user_ns[name] = result
        return result if result else None

    def _status(self, _options) -> None:
        print("\n".join(self._torchrun.status()) or "No agents.")

    def _kill(self, options) -> None:
        name = options.signal.upper()
        name = name if name.startswith("SIG") else f"SIG{name}"
        if name not in signal.Signals.__members__:
            raise UsageError(f"%torchrun kill: {options.signal} is no signal; try SIGKILL")
        print(self._torchrun.kill(options.name, signal.Signals[name], options.worker))

    def _join(self, options):
        with Page() as page:
            result = self._torchrun.join(options.name, page.show)
        return self._keep(result, options.into)

    def _logs(self, options) -> None:
        launch, log = self._torchrun.logs(options.name)
        with Page() as page:
            for _, kind, content in list(launch.events):
                page.show(kind, content)
        if log.strip():
            print("torchrun itself:", log.strip(), sep="\n")

    def _stop(self, _options) -> None:
        if self.launcher is not None:
            self.launcher.stop()

    @property
    def _torchrun(self) -> Torchrun:
        if self.launcher is None:
            type(self).launcher = Torchrun()
        return self.launcher


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"%%torchrun {line.strip()}: {error}") from None


def _is_node_name(text: str) -> bool:
    return text.replace("-", "").replace("_", "").isalnum()


def _check_syntax(program: str) -> None:
    try:
        with warnings.catch_warnings(action="ignore"):  # the ranks will tell
            compile(program, "cell", "exec", dont_inherit=True)
    except SyntaxError as error:
        text = (error.text or "").rstrip()
        where = f"cell line {error.lineno}: {error.msg}"
        raise CellFailed(f"SyntaxError, {where}", f"SyntaxError, {where}\n{text}") from None


def load(ip) -> None:
    """Register the magics in the IPython shell `ip`."""
    ip.register_magics(TorchrunMagics)
