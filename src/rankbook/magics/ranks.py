"""``%ranks`` and ``%%ranks``: parse, call, show. The work is done in `rankbook.live`."""

from typing import Any

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class

from rankbook.live.errors import UsageError
from rankbook.live.ranks import rank_forkserver
from rankbook.live.ranks.session import Ranks
from rankbook.magics.line import LineParser, RanksLine, command_of

COMMANDS = ("start", "get", "put", "status", "restart", "stop")


def _add_options(command: str, parser: LineParser) -> None:
    if command == "start":
        parser.add_argument("-n", type=int, required=True, metavar="RANKS")
        parser.add_argument("--backend", default="auto", choices=["auto", "gloo", "nccl"])
        parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS")
        parser.add_argument("--no-check", action="store_true")
    if command in ("get", "put"):
        parser.add_argument("name")
    if command == "get":
        parser.add_argument("--from", type=int, dest="rank", default=None, metavar="RANK")


@magics_class
class RanksMagics(Magics):
    """A live process group in the notebook."""

    shell: Any  # IPython's, once the magics are registered
    session: Ranks | None = None

    @line_cell_magic
    def ranks(self, line, cell=None):
        """Run a cell on live ranks, or steer them.

        %ranks start -n 4 [--backend auto|gloo|nccl] [--timeout SECONDS] [--no-check]
            --timeout SECONDS  that a collective waits for other ranks (60)
            --no-check         do not compare the ranks' collectives: every call is a little faster
        %ranks get NAME [--from RANK] | put NAME | restart | stop
        %ranks status          what each rank does, its memory, its last collective
        %%ranks [0,2] [--time] [--no-check]
            0,2                on these ranks only
            --time             show each rank's seconds, and who waited for whom
            --no-check         do not compare collectives in this cell
        """
        if cell is not None:
            return self._cell(line, cell)
        command, parser, words = command_of("%ranks", line, COMMANDS, "%%ranks")
        _add_options(command, parser)
        return getattr(self, f"_{command}")(parser.parse_args(words))

    def _cell(self, line: str, cell: str) -> None:
        # One line above the cell, as in the notebook: line numbers agree. A cell that starts
        # with a magic of its own must keep that on top.
        code = cell if cell.lstrip().startswith("%%") else f"#%%ranks {line}\n{cell}"
        number = len(self.shell.user_ns["In"]) - 1  # the one that the notebook shows: In [number]
        asked = RanksLine.parse(line)
        self._running().execute(code, asked.ranks, number, asked.time, asked.check)

    def _start(self, options) -> None:
        if self.session is not None:
            raise UsageError(
                f"{self.session.world_size} ranks are running already; stop them first: %ranks stop"
            )
        session = Ranks(options.n, options.backend, options.timeout, not options.no_check)
        self._launch(session)

    def _launch(self, session: Ranks) -> None:
        seconds = session.start()
        type(self).session = session
        print(f"{session.world_size} ranks after {seconds:.1f} s: {session.placement}")

    def _get(self, options):
        value = self._running().get(options.name, options.rank)
        self.shell.user_ns[options.name] = value
        return value

    def _put(self, options) -> None:
        if options.name not in self.shell.user_ns:
            raise UsageError(f"%ranks put: {options.name!r} is not defined in the notebook")
        self._running().put(options.name, self.shell.user_ns[options.name])

    def _status(self, _options) -> None:
        print(self.session.status() if self.session else "No ranks are running.")

    def _restart(self, _options) -> None:
        old = self._running()
        self._stop(None)
        self._launch(Ranks(old.world_size, old.backend, old.timeout, old.check))

    def _stop(self, _options) -> None:
        session, type(self).session = self.session, None
        if session is not None:
            session.stop()

    def _running(self) -> Ranks:
        if self.session is None:
            raise UsageError("no ranks are running; start some first: %ranks start -n 2")
        return self.session


@context_matcher()
def complete_on_rank(context: CompletionContext):
    """Complete names in a ``%%ranks`` cell with the variables of a rank."""
    first, _, body = context.full_text.partition("\n")
    session = RanksMagics.session
    if not first.startswith("%%ranks") or session is None or context.cursor_line == 0:
        return {"completions": [], "suppress": False}
    lines = body.split("\n")[: context.cursor_line - 1]
    cursor = sum(len(line) + 1 for line in lines) + context.cursor_position
    reply = session.complete(body, cursor)
    start = reply.get("cursor_start", cursor)
    typed = len(context.token) - (cursor - start)  # what the notebook counts as typed, too
    prefix = context.token[: max(0, typed)]
    completions = [SimpleCompletion(prefix + match) for match in reply.get("matches", [])]
    return {"completions": completions, "suppress": bool(completions)}


def _leave_nothing_at_shutdown(kernel) -> None:
    """Wrap the notebook kernel's `do_shutdown`: a restart is quick and leaves nothing behind."""
    shut_down = kernel.do_shutdown

    def do_shutdown(restart):
        if RanksMagics.session is not None:
            RanksMagics.session.remove_directory()
        rank_forkserver.stop()
        return shut_down(restart)

    kernel.do_shutdown = do_shutdown


def register(ip: InteractiveShell) -> None:
    """Add the magics to `ip`; the fork server of the ranks starts to load torch meanwhile."""
    ip.register_magics(RanksMagics)
    ip.Completer.custom_matchers.append(complete_on_rank)
    if hasattr(ip, "kernel"):
        _leave_nothing_at_shutdown(ip.kernel)
    rank_forkserver.warm_up()
