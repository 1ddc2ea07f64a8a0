"""``%ranks`` and ``%%ranks``: parse, call, show. The work is done in `rankbook.live`."""

import shlex

from IPython.core.completer import CompletionContext, SimpleCompletion, context_matcher
from IPython.core.magic import Magics, line_cell_magic, magics_class

from rankbook.live.errors import UsageError
from rankbook.live.ranks import forkserver
from rankbook.live.ranks.session import Ranks
from rankbook.magics_torchrun import LineParser
from rankbook.magics_torchrun import load as load_torchrun

COMMANDS = "start, get, put, status, restart or stop"


def _parser(command: str) -> LineParser:
    parser = LineParser(prog=f"ranks {command}", add_help=False)
    if command == "start":
        parser.add_argument("-n", type=int, required=True, metavar="RANKS")
        parser.add_argument("--backend", default="auto", choices=["auto", "gloo", "nccl"])
        parser.add_argument("--timeout", type=float, default=60.0, metavar="SECONDS")
        parser.add_argument("--no-check", action="store_true")
    if command in ("get", "put"):
        parser.add_argument("name")
    if command == "get":
        parser.add_argument("--from", type=int, dest="rank", default=None, metavar="RANK")
    return parser


@magics_class
class RanksMagics(Magics):
    """A live process group in the notebook."""

    session: Ranks | None = None

    @line_cell_magic
    def ranks(self, line, cell=None):
        """Run a cell on live ranks, or steer them.

        %ranks start -n 4 [--backend auto|gloo|nccl] [--timeout SECONDS] [--no-check]
        %ranks get NAME [--from RANK] | put NAME | status | restart | stop
        %%ranks [0,2]
        """
        if cell is not None:
            return self._cell(line, cell)
        command, *arguments = shlex.split(line) or [""]
        if command not in ("start", "get", "put", "status", "restart", "stop"):
            what = f"%ranks {command} is unknown" if command else "%ranks needs a command"
            raise UsageError(f"{what}; use {COMMANDS}, or %%ranks for a cell")
        options = _parser(command).parse_args(arguments)
        return getattr(self, f"_{command}")(options)

    def _cell(self, line: str, cell: str) -> None:
        # One line above the cell, as in the notebook: line numbers agree. A cell that starts
        # with a magic of its own must keep that on top.
        code = cell if cell.lstrip().startswith("%%") else f"#%%ranks {line}\n{cell}"
        number = len(self.shell.user_ns["In"]) - 1  # the one that the notebook shows: In [number]
        self._running().execute(code, _rank_list(line), number)

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


def _rank_list(line: str) -> list[int] | None:
    text = line.split("#")[0].strip().strip("[]")
    if not text:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"%%ranks {line.strip()}: give ranks like 0 or 0,2") from None


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
        forkserver.stop()
        return shut_down(restart)

    kernel.do_shutdown = do_shutdown


def load_ipython_extension(ip) -> None:
    """Register the magics; a process with torch loaded starts to warm up in the background."""
    ip.register_magics(RanksMagics)
    ip.Completer.custom_matchers.append(complete_on_rank)
    load_torchrun(ip)
    if hasattr(ip, "kernel"):
        _leave_nothing_at_shutdown(ip.kernel)
    forkserver.warm_up()
