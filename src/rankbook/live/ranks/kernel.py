"""One rank: a real IPython kernel, forked from the warm server, with a process group to join."""

import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from multiprocessing import forkserver
from pathlib import Path
from typing import ClassVar

import torch
from ipykernel.compiler import get_tmp_directory
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp

from rankbook.live.lifeline import die_with_parent
from rankbook.live.ranks import check, group, where
from rankbook.live.ranks.spec import RankSpec
from rankbook.live.readable import show_readable_warnings


class RankApp(IPKernelApp):
    """Starts a rank's kernel."""

    def init_control(self, context):
        """No thread for subshells: a rank runs one cell at a time, and every hop costs time."""
        super().init_control(context)
        self.shell_channel_thread = None


class RankKernel(IPythonKernel):
    """An IPython kernel that can join a process group, and say where it stands while busy."""

    spec: RankSpec
    board: check.CallBoard | None = None
    control_msg_types: ClassVar = [*IPythonKernel.control_msg_types, "where_request", "cut_request"]

    async def do_execute(self, code, silent, *args, cell_meta=None, **kwargs):
        """Run a cell; tracebacks carry the notebook's own cell number."""
        number = (cell_meta or {}).get("execution_count")
        if number and not silent:
            self.shell.execution_count = number
        return await super().do_execute(code, silent, *args, cell_meta=cell_meta, **kwargs)

    def _publish_execute_input(self, code, parent, execution_count):
        """The notebook, the only one to listen, knows the cell."""

    def join_group(self, store_file: str) -> None:
        """Make the default process group, or make it again, and tell the shell its device."""
        spec, board = self.spec, self.board
        self.board = None  # torch makes calls of its own while the group comes up
        if board is not None:
            board.close()
        placement = group.join(store_file, spec)
        self.shell.user_ns["device"] = placement.device
        if spec.check:
            check.install(lambda: self.board)
            self.board = check.CallBoard(f"{store_file}.calls", spec.rank, spec.world_size)
        if spec.rank == 0:
            where_to = f"{placement.backend} on {placement.device.type} ({placement.why})"
            Path(f"{spec.directory}/placement").write_text(where_to)

    # Control requests are answered by a thread of their own: also while a cell hangs in a
    # collective, which gives the interpreter lock away.

    def where_request(self, stream, ident, parent):
        """Say which call the main thread is in, or which call the last error came from."""
        busy = parent["content"]["busy"]
        call = where.running(self.shell) if busy else where.failed(self.shell)
        self.session.send(stream, "where_reply", call.as_dict(), parent, ident)

    def cut_request(self, stream, ident, parent):
        """Make the collective that the main thread hangs in raise."""
        self.session.send(stream, "cut_reply", {"cut": group.cut()}, parent, ident)


def _die_with_notebook() -> None:
    threading.Thread(target=_watch_notebook, daemon=True).start()
    parent = os.getppid()
    os.environ["JPY_PARENT_PID"] = str(parent)  # ipykernel watches it, too
    # The server ends when its pipe's other end closes. It hands that end to its children, too;
    # a rank that kept it would keep the server, and so itself, alive after the notebook.
    os.close(forkserver._forkserver._forkserver_alive_fd)
    forkserver._forkserver._forkserver_alive_fd = None
    die_with_parent(parent)


def _watch_notebook() -> None:
    """End this rank when the notebook's kernel is gone. Quick, but needs the interpreter lock;
    what the server's end brings about comes a second later, and surely."""
    multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
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
    _die_with_notebook()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    crash_file = Path(spec.crash_file).open("w")  # noqa: SIM115  open for as long as we live
    faulthandler.enable(crash_file)
    show_readable_warnings(get_tmp_directory())  # where ipykernel says that cells are
    _silence_terminal()
    app = RankApp.instance(connection_file=spec.connection_file, kernel_class=RankKernel)
    # The notebook's own history has the cells; opening it would also wait for others' locks on it.
    app.initialize(["--HistoryManager.enabled=False"])
    app.kernel.spec = spec
    app.shell.user_ns.update(group.names(spec))
    app.shell.user_ns_hidden.update(app.shell.user_ns)
    ready.send(None)
    ready.close()
    app.start()
