"""A live process group: ranks that stay between cells."""

import atexit
import os
import shutil
import time
from pathlib import Path

from rankbook.core.ports import ReservedPort
from rankbook.live.errors import CellFailed, UsageError
from rankbook.live.private import end_marked, private_directory
from rankbook.live.ranks import rank_forkserver, status, timing
from rankbook.live.ranks.cell import CellRun
from rankbook.live.ranks.process import RankProcess
from rankbook.live.ranks.spec import RankSpec
from rankbook.live.screen.output import label

START_SECONDS = 120.0
STOP_SECONDS = 1.0
LONGEST_TIMEOUT = 1e6  # seconds, which torch can count in its own units
COMPLETE_SECONDS = 3.0  # the notebook waits for the answer, and can do nothing else


class Ranks:
    """`world_size` live ranks. Make one with `start`; `stop` ends every process of it.

    backend: "auto", "gloo" or "nccl". timeout: seconds a collective may wait for the others.
    check: compare every collective's operation, shape and dtype over the ranks.
    """

    def __init__(self, world_size: int, backend="auto", timeout=60.0, check=True):
        if world_size < 1:
            raise UsageError(f"-n {world_size} makes no process group; give 1 rank or more")
        if not 0 < timeout <= LONGEST_TIMEOUT:  # nan is neither
            raise UsageError(f"--timeout {timeout:g} is no time; give seconds, such as 60")
        self.world_size, self.backend = world_size, backend
        self.timeout, self.check = timeout, check
        self.placement = ""
        self._processes: dict[int, RankProcess] = {}
        self._generation = 0
        self._group_lost = False
        self._destroyed = False  # by the reader, on a rank or more
        self._directory = str(private_directory("ranks"))
        self._port = ReservedPort()  # MASTER_PORT, for code that makes a group of its own

    def start(self) -> float:
        """Start the ranks and their process group; return the seconds it took."""
        began = time.monotonic()
        atexit.register(self.stop)  # before multiprocessing's own, which would wait for ranks
        try:
            rank_forkserver.warm_up()
            context = rank_forkserver.context()
            for rank in range(self.world_size):
                spec = RankSpec(rank, self.world_size, self._directory, self._port.number,
                                self.backend, self.timeout, self.check)  # fmt: skip
                self._processes[rank] = RankProcess(context, spec, dict(os.environ))
            for process in self._processes.values():
                process.wait_ready(began + START_SECONDS)
            self._make_group()
        except BaseException:
            self.stop()
            raise
        return time.monotonic() - began

    def stop(self) -> None:
        """End every rank, whatever it does, and remove the private directory."""
        atexit.unregister(self.stop)
        deadline = time.monotonic() + STOP_SECONDS
        for process in self._processes.values():
            process.interrupt_and_shut_down()
        for process in self._processes.values():
            process.stop(deadline)
        if self._processes:
            end_marked(self._directory)  # what cells started, in sessions of its own
        self._processes.clear()
        self._port.close()
        self.remove_directory()

    def remove_directory(self) -> None:
        """Remove the private directory."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def execute(
        self,
        code: str,
        ranks: list[int] | None = None,
        number: int | None = None,
        time: bool = False,
        check: bool = True,
    ) -> None:
        """Run a cell on `ranks` (all by default), showing its output; raises CellFailed.

        number: the cell's in the notebook. time: show each rank's seconds, and who waited for
        whom. check: whether this cell's collectives are compared, if the session's are.
        """
        ranks = self._checked(ranks)
        makes_its_own = self._destroyed and "init_process_group" in code
        if (self._group_lost or self._destroyed) and not self.dead and not makes_its_own:
            self._make_group()
        chosen = {r: self._processes[r] for r in ranks}
        run = CellRun(chosen, code, number, time=time, check=check)
        report = run.run(self.world_size)
        if run.timings:
            print(timing.format_timings(run.timings))
        self._group_lost = self._group_lost or report.group_lost
        self._notice_a_destroyed_group(set(run.has_group.values()))
        if report.failed or report.interrupted:
            raise report.exception()

    def _notice_a_destroyed_group(self, groups: set[bool]) -> None:
        """`groups`: whether there is one, of each rank that ran the last cell to its end."""
        if False in groups and not self._destroyed:
            print("The process group was destroyed; the next cell gets a new one.")
        self._destroyed = False in groups or (self._destroyed and groups != {True})

    def get(self, name: str, rank: int | None = None):
        """The value of `name` on `rank`; without `rank`, the list of its values by rank."""
        ranks = self._checked(None if rank is None else [rank])
        files = {r: f"{self._directory}/get{r}" for r in ranks}
        for r in ranks:
            self._quietly(
                "from rankbook.live.ranks import transfer; "
                f"transfer.export(get_ipython().user_ns, {name!r}, {files[r]!r})",
                r,
                f"%ranks get {name}",
            )
        from rankbook.live.ranks import transfer  # loads torch: only who asks waits

        values = [transfer.load(files[r], name) for r in ranks]
        return values if rank is None else values[0]

    def put(self, name: str, value) -> None:
        """Give every rank its own copy of `value`, under `name`."""
        from rankbook.live.ranks import transfer

        for rank in self._checked(None):
            file = f"{self._directory}/put{rank}"
            transfer.save(value, file, name)
            self._quietly(
                "from rankbook.live.ranks import transfer; "
                f"get_ipython().user_ns[{name!r}] = transfer.load({file!r}, {name!r}, "
                "'in the notebook')",
                rank,
                f"%ranks put {name}",
            )

    def complete(self, code: str, cursor: int) -> dict:
        """Ask rank 0 (or the first that lives) to complete `code`; empty while it is busy."""
        alive = [r for r in self._processes if r not in self.dead]
        if not alive:
            return {}
        return self._processes[alive[0]].complete(code, cursor, COMPLETE_SECONDS) or {}

    @property
    def dead(self) -> dict[int, str]:
        """The ranks that ended, and how."""
        return {r: p.ending() for r, p in self._processes.items() if not p.alive}

    def status(self) -> str:
        """A few lines on every rank: state, memory, last collective. Any thread may ask."""
        dead = self.dead
        lines = [f"{self.world_size} ranks: {self.placement}"]
        lines += status.lines(self._processes, dead)
        if dead:
            lines.append("Start afresh with: %ranks restart")
        elif self._group_lost:
            lines.append("The last cell failed: the next one gets a new process group.")
        return "\n".join(lines)

    def _checked(self, ranks: list[int] | None) -> list[int]:
        wanted = list(range(self.world_size)) if ranks is None else sorted(set(ranks))
        if unknown := [r for r in wanted if r not in self._processes]:
            raise UsageError(
                f"there is no rank {unknown[0]}: the ranks are 0 to {self.world_size - 1}"
            )
        dead = self.dead
        if gone := [r for r in wanted if r in dead]:
            raise UsageError(
                f"rank {gone[0]} is gone ({dead[gone[0]]}); start afresh with: %ranks restart"
            )
        return wanted

    def _make_group(self) -> None:
        """All ranks meet at a new file; their variables stay."""
        self._generation += 1
        store = f"{self._directory}/store{self._generation}"
        Path(f"{store}.calls").mkdir()
        code = f"get_ipython().kernel.join_group({store!r})"
        run = CellRun(dict(self._processes), code, None, silent=True)
        report = run.run(self.world_size)
        if report.failed or report.interrupted:
            first = next(iter(report.failed.values()), None)
            if first and first.raised and first.raised.kind == "ValueError":
                raise UsageError(first.raised.message)
            raise report.exception()
        self._group_lost = self._destroyed = False
        self.placement = (Path(self._directory) / "placement").read_text()

    def _quietly(self, code: str, rank: int, doing: str) -> None:
        report = CellRun({rank: self._processes[rank]}, code, None, silent=True).run(1)
        for ending in report.failed.values():
            cause = ending.raised.message if ending.raised else ending.gone
            raise UsageError(f"{doing}: on rank {rank}, {cause}")
        if report.interrupted:
            raise CellFailed(f"{doing} was interrupted on {label([rank])}")
