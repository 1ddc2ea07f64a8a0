"""One rank: a real IPython kernel, forked from the warm server, with a process group to join."""

import atexit
import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import signal
import sys
import threading
import time
import warnings
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from ipykernel.compiler import get_tmp_directory
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp
from traitlets import Float, Type

from rankbook.core.parent_death import die_with_parent
from rankbook.live.private import end_marked
from rankbook.live.ranks import check, group, parting, where
from rankbook.live.ranks.sampler import Sampler
from rankbook.live.ranks.shell import RankShell
from rankbook.live.ranks.spec import RankSpec
from rankbook.live.ranks.standing import standing
from rankbook.live.screen.readable import show_readable_warnings

EXIT = "it ends the cell, not the rank; %ranks stop ends the ranks"


class NoThread:
    """In place of ipykernel's thread for subshells: none, but it names the thread of the cells."""

    def __bool__(self) -> bool:
        return False

    @property
    def parent_thread(self) -> threading.Thread:
        """Where cells run."""
        return threading.main_thread()


class RankApp(IPKernelApp):
    """Starts a rank's kernel."""

    def init_control(self, context):
        """No thread for subshells: a rank runs one cell at a time, and every hop costs time."""
        super().init_control(context)
        self.shell_channel_thread = NoThread()


class RankKernel(IPythonKernel):
    """An IPython kernel that can join a process group, and say where it stands while busy."""

    shell_class = Type(RankShell)
    _supports_kernel_subshells = False
    spec: RankSpec
    board: check.CallBoard | None = None
    control_msg_types = [  # noqa: RUF012
        *IPythonKernel.control_msg_types,
        "where_request", "cut_request", "standing_request", "made_request",
    ]  # fmt: skip
    _cell: int | None = None  # the number of the last cell
    _since: float | None = None  # when it began; None once it has ended
    _begun: float = 0.0  # when the last cell of the notebook began, seconds since the epoch

    async def do_execute(self, code, silent, *args, cell_meta=None, **kwargs):
        """Run a cell; tracebacks carry the notebook's own cell number.

        cell_meta: that number, and what `process.execute` has for options.
        """
        meta = cell_meta or {}
        number = meta.get("execution_count")
        if not silent:
            self._begun = time.time()
        if number and not silent:
            self._shell().execution_count = number
        self._shell().evidence, self._cell, self._since = None, number, time.time()
        board, self.board = self.board, self.board if meta.get("check", True) else None
        sampler = Sampler(self._shell()) if meta.get("time") else None
        try:
            reply = await super().do_execute(code, silent, *args, cell_meta=cell_meta, **kwargs)
        finally:
            self._since = None
            timing = sampler.stop() if sampler else None
            if self.board is None and not silent:
                self.board = board
        if reply["status"] == "error" and self._shell().evidence:
            reply["evidence"] = self._shell().evidence  # where the exception came from, and when
        if reply.get("ename") == "SystemExit":
            reply["evalue"] = f"{reply['evalue']} ({EXIT})".lstrip()
        return reply | {"group": dist.is_initialized(), "timing": timing}

    def _cancel_on_sigint(self, future):
        """Let an interrupt end a cell with `await`."""
        return self._shell().interruptible(future)

    # A message costs the notebook as much time as a small collective: what it does not need, it
    # does not get. It reads the end of the output itself, where ipykernel would sleep for it.
    _execute_sleep = Float(0.0)

    def _publish_execute_input(self, code, parent, execution_count):
        """The notebook, the only one to listen, knows the cell."""

    def _publish_status(self, status, channel, parent=None):
        """That a cell has begun, or a control request has ended, interests nobody."""
        if status != "busy" and channel != "control":
            super()._publish_status(status, channel, parent)

    def join_group(self, store_file: str) -> None:
        """Make the default process group, or make it again, and tell the shell its device."""
        spec, board = self.spec, self.board
        self.board = None  # torch makes calls of its own while the group comes up
        if board is not None:
            board.close()
        placement = group.join(store_file, spec)
        self._shell().user_ns["device"] = placement.device
        if spec.check:
            check.install(lambda: self.board)
            self.board = check.CallBoard(f"{store_file}.calls", spec.rank, spec.world_size)
        if spec.rank == 0:
            where_to = f"{placement.backend} on {placement.device.type} ({placement.why})"
            Path(f"{spec.directory}/placement").write_text(where_to)

    def _shell(self) -> Any:
        """The shell, which is there before the first request."""
        return self.shell

    # Control requests are answered by a thread of their own: also while a cell hangs in a
    # collective, which gives the interpreter lock away.

    def where_request(self, stream, ident, parent):
        """Say which call this rank is in."""
        call = where.running(self.shell)
        self.session.send(stream, "where_reply", call.as_dict(), parent, ident)

    def standing_request(self, stream, ident, parent):
        """Say what this rank does, how much memory it has, and its last collective."""
        known = standing(self.shell, self._cell, self._since)
        self.session.send(stream, "standing_reply", known, parent, ident)

    def cut_request(self, stream, ident, parent):
        """Make the collective that the main thread hangs in raise."""
        self.session.send(stream, "cut_reply", {"cut": group.cut()}, parent, ident)

    def made_request(self, stream, ident, parent):
        """Say which collectives of its group this rank has made since its cell began."""
        calls = parting.made(max(group.made_at(), self._begun), get_tmp_directory())
        self.session.send(stream, "made_reply", {"calls": calls}, parent, ident)


def _die_with_notebook(spec: RankSpec) -> None:
    threading.Thread(target=_watch_notebook, args=(spec.directory,), daemon=True).start()
    parent = os.getppid()
    os.environ["JPY_PARENT_PID"] = str(parent)  # ipykernel watches it, too
    # The server ends when its pipe's other end closes. It hands that end to its children, too;
    # a rank that kept it would keep the server, and so itself, alive after the notebook.
    server: Any = forkserver._forkserver
    os.close(server._forkserver_alive_fd)
    server._forkserver_alive_fd = None
    die_with_parent(parent)


def _watch_notebook(directory: str) -> None:
    """End this rank when the notebook's kernel is gone. Quick, but needs the interpreter lock;
    what the server's end brings about comes a second later, and surely."""
    if notebook := multiprocessing.parent_process():
        multiprocessing.connection.wait([notebook.sentinel])
    end_marked(directory)
    os.killpg(0, signal.SIGKILL)


def _silence_terminal() -> None:
    """ipykernel takes what native code prints and echoes it to the terminal it was started from.

    For a rank that would be the notebook's own output: everything would be shown twice.
    """
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)


def run(spec: RankSpec, environment: dict[str, str], ready) -> None:
    """Run a rank until it is told to shut down. `ready` is a pipe end that hears of the start."""
    os.setsid()  # a Ctrl-C for the notebook's kernel is not for the ranks: the driver decides
    os.environ.clear()
    os.environ.update(environment)
    os.environ.update(spec.environment)
    # A rank starts the workers of its loaders as any program does: they know what cells define.
    multiprocessing.set_start_method(None, force=True)
    config: Any = multiprocessing.current_process()
    config._config["tempdir"] = spec.directory  # of managers that a cell starts
    _die_with_notebook(spec)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    crash_file = Path(spec.crash_file).open("w")  # noqa: SIM115  open for as long as we live
    faulthandler.enable(crash_file)
    show_readable_warnings(get_tmp_directory())  # where ipykernel says that cells are
    _silence_terminal()
    warnings.filterwarnings("ignore", "To exit: use")  # what IPython advises does not hold here
    sys.argv = ["cell"]  # not the notebook's, which a parser of arguments would read
    app = RankApp.instance(connection_file=spec.connection_file, kernel_class=RankKernel)
    # The notebook's own history has the cells; opening it would also wait for others' locks on it.
    app.initialize(["--HistoryManager.enabled=False"])
    app.kernel.spec = spec
    shell: Any = app.shell
    shell.user_ns.update(group.names(spec))
    shell.user_ns_hidden.update(shell.user_ns)
    ready.send(None)
    ready.close()
    atexit._clear()  # what the server has registered is not for us to run
    app.start()
    atexit._run_exitfuncs()  # what cells have; multiprocessing's children run none
