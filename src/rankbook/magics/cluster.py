"""``%cluster`` and ``%%cluster``: parse, call, show; `rankbook.testbed.slurm` does the work."""

from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, line_cell_magic, magics_class

from rankbook.live.errors import CellFailed, UsageError
from rankbook.magics.line import LineParser, command_of, split
from rankbook.testbed.recorded_cells import find
from rankbook.testbed.slurm import setups
from rankbook.testbed.slurm.cluster import Cluster
from rankbook.testbed.slurm.environment import ROOT
from rankbook.testbed.slurm.possible import why_not

COMMANDS = ("start", "status", "stop")
NONE = "no cluster is running; start one first: %cluster start"


@magics_class
class ClusterMagics(Magics):
    """A Slurm cluster of two hosts beside the notebook."""

    shell: Any  # IPython's, once the magics are registered
    running: Cluster | None = None
    skipped = 0  # cells that this machine could not run

    @line_cell_magic
    def cluster(self, line, cell=None):
        """Run a cell on the cluster's login node, with bash, or start and stop the cluster.

        %cluster start [--setup NAME,...] | status | stop
            --setup NAME       as other clusters are set up: contain, default_preemption, gpus
        %%cluster [--on HOST] [--here] [--seconds SECONDS] NAME
            --on HOST          on that host (n1 or n2), not on the login node
            --here             as Python in the notebook, once the cluster is there
            --seconds SECONDS  how long it may take (900)
            NAME               under which the output is recorded, for machines without a cluster
        """
        if cell is not None:
            return self._cell(line, cell)
        command, parser, words = command_of("%cluster", line, COMMANDS, "%%cluster NAME")
        if command == "start":
            parser.add_argument("--setup", default="")
            return self._start(parser.parse_args(words).setup)
        parser.parse_args(words)  # none: a mistake is said
        getattr(self, f"_{command}")()

    def _start(self, setup: str) -> None:
        try:
            setups.words(setup)
        except ValueError as error:
            raise UsageError(f"%cluster start --setup: {error}") from None
        if self.running is not None:
            raise UsageError("a cluster is running already; stop it first: %cluster stop")
        if reason := why_not():
            print(f"No cluster here: {reason}. Cells that need it show what a recorded run said.")
            return
        cluster = Cluster(setup=setup)
        type(self).running = self.shell.user_ns["cluster"] = cluster
        version = cluster.login("sinfo --version").split()[-1]
        hosts = " and ".join(cluster.nodes)
        print(f"Slurm {version} on {hosts} after {cluster.seconds:.1f} s")

    def _status(self) -> None:
        if self.running is not None:
            self._run(self.running, "sinfo -N --long; squeue", None, 20.0)
        else:
            print("No cluster is running.")

    def _stop(self) -> None:
        cluster, type(self).running = self.running, None
        if cluster is not None:
            cluster.stop()
        if self.skipped:
            print(f"Cells skipped for want of a cluster: {self.skipped}")
        type(self).skipped = 0

    def _cell(self, line: str, cell: str) -> None:
        options = _parse(line)
        if not cell.strip():
            raise UsageError("%%cluster: the cell is empty; write the script under the first line")
        if self.running is None:
            self._show_recorded(options.name, cell)
        elif options.here:
            self._here(cell)
        else:
            self._run(self.running, f"\n{cell}", options.on, options.seconds)

    def _run(self, cluster: Cluster, script: str, host: str | None, seconds: float) -> None:
        if host is not None and host not in cluster.nodes:
            hosts = " and ".join(cluster.nodes)
            raise UsageError(f"%%cluster --on {host}: there is no such host; there are {hosts}")
        screen = ScriptScreen({str(cluster.folder): "$SHARED", f"{ROOT}/": "", str(ROOT): "."})
        try:
            if host is None:
                cluster.login(script, seconds, screen.show)
            else:
                cluster.on(host, script, seconds, screen.show)
        finally:
            screen.close()

    def _here(self, cell: str) -> None:
        result = self.shell.run_cell(cell)  # which shows an error and its lines itself
        if error := result.error_before_exec or result.error_in_exec:
            raise CellFailed(f"{type(error).__name__}: {error}")

    def _show_recorded(self, name: str, cell: str) -> None:
        if not why_not():
            raise UsageError(NONE)
        type(self).skipped += 1
        found = find(name)
        if found is None:
            print(f"[skipped here; nothing is recorded under the name {name}]")
        else:
            print(found.mark(cell))
            print(found.output)


class ScriptScreen:
    """Shows a script's output in the notebook, a line at a time, without this machine's paths.

    names: what to show for each path.
    """

    def __init__(self, names: dict[str, str]):
        self._names, self._rest = names, ""

    def show(self, text: str) -> None:
        """Take output of any length."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            print(self._readable(line))

    def close(self) -> None:
        """Show what has no end of line."""
        if self._rest:
            print(self._readable(self._rest))
        self._rest = ""

    def _readable(self, line: str) -> str:
        for path, name in self._names.items():
            line = line.replace(path, name)
        return line


def cell_name(line: str) -> str:
    """The NAME in a ``%%cluster`` line, under which the cell's output is recorded."""
    return _parse(line).name


def _parse(line: str):
    parser = LineParser("%%cluster")
    parser.add_argument("--on", metavar="HOST")
    parser.add_argument("--here", action="store_true")
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("name", metavar="NAME")
    return parser.parse_args(split("%%cluster", line))


def load_ipython_extension(ip: InteractiveShell) -> None:
    """``%load_ext rankbook.magics.cluster``: add ``%cluster`` and ``%%cluster`` to `ip`."""
    ip.register_magics(ClusterMagics)
