"""``%torchrun`` and ``%%torchrun``: parse, call, show. The work is done in `rankbook.live`."""

import signal
import warnings
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class

from rankbook.live.errors import CellFailed, UsageError
from rankbook.live.screen.show import LaunchScreen
from rankbook.live.torchrun.session import Torchrun
from rankbook.live.torchrun.spec import LaunchSpec
from rankbook.magics.line import LineParser, TorchrunLine, command_of

COMMANDS = ("status", "kill", "join", "logs", "stop")


def _add_options(command: str, parser: LineParser) -> None:
    if command == "kill":
        parser.add_argument("name")
        parser.add_argument("--signal", default="SIGTERM")
        parser.add_argument("--worker", type=int, default=None, metavar="RANK")
    if command in ("join", "logs"):
        parser.add_argument("name", nargs="?", default=None)
    if command == "join":
        parser.add_argument("--into", default="", metavar="NAME")


@magics_class
class TorchrunMagics(Magics):
    """Cells as programs under the real torchrun."""

    shell: Any  # IPython's, once the magics are registered
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
        command, parser, words = command_of("%torchrun", line, COMMANDS, "%%torchrun")
        _add_options(command, parser)
        return getattr(self, f"_{command}")(parser.parse_args(words))

    def _cell(self, line: str, cell: str):
        options = TorchrunLine.parse(line)
        if not cell.strip():
            raise UsageError(
                "%%torchrun: the cell is empty; write the program under the first line"
            )
        # One line above the program, as in the notebook: line numbers agree.
        program = f"# %%torchrun {line}\n{cell}"
        _check_syntax(program)
        spec = LaunchSpec(options.options, options.program, options.node)
        with LaunchScreen() as screen:
            if options.node:
                run = (spec, program, screen.show, options.cold, options.background)
                result = self._torchrun.run_node(*run)
            else:
                result = self._torchrun.run(spec, program, screen.show, options.cold)
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
        with LaunchScreen() as screen:
            result = self._torchrun.join(options.name, screen.show)
        return self._keep(result, options.into)

    def _logs(self, options) -> None:
        launch, log = self._torchrun.logs(options.name)
        with LaunchScreen() as screen:
            for _, kind, content in list(launch.events):
                screen.show(kind, content)
        if log.strip():
            print("torchrun itself:", log.strip(), sep="\n")

    def _stop(self, _options) -> None:
        if self.launcher is not None:
            self.launcher.stop()

    @property
    def _torchrun(self) -> Torchrun:
        launcher = self.launcher or Torchrun()
        type(self).launcher = launcher
        return launcher


def _check_syntax(program: str) -> None:
    try:
        with warnings.catch_warnings(action="ignore"):  # the ranks will tell
            compile(program, "cell", "exec", dont_inherit=True)
    except SyntaxError as error:
        text = (error.text or "").rstrip()
        where = f"cell line {error.lineno}: {error.msg}"
        raise CellFailed(f"SyntaxError, {where}", f"SyntaxError, {where}\n{text}") from None


def register(ip: InteractiveShell) -> None:
    """Add the magics to `ip`."""
    ip.register_magics(TorchrunMagics)
