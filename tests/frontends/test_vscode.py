"""The protocol as VS Code's Jupyter extension speaks it to a kernel that it starts itself.

It starts the kernel as a plain child, connects over TCP, runs code of its own first, names the cell
in each request's metadata, allows input, interrupts by a SIGINT to the kernel's process alone, and
ends it by SIGTERM to every child and then to the kernel, without asking it to leave.
Source: https://github.com/microsoft/vscode-jupyter, src/kernels:
raw/launcher/kernelProcess.node.ts, raw/session/rawKernelConnection.node.ts,
execution/cellExecution.ts, kernel.ts
"""

import os
import queue
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress

import psutil
import pytest
from jupyter_client import BlockingKernelClient
from jupyter_client.connect import write_connection_file

from rankbook.live.failure.report import INTERRUPTED
from tests.frontends.notebooks import CAUSE, FAIL, LAUNCH, LOAD, SHOWN, START, SUM
from tests.frontends.traces import Traces
from tests.live.kernel import COLOUR
from tests.waiting import SOON

# what the extension sends before the reader's first cell
STARTUP = """
import builtins, sys
def __vscode_input_with_flush(*args, **kwargs):
    sys.stdout.flush()
    return __vscode_original_input(*args, **kwargs)
__vscode_original_input = builtins.input
builtins.input = __vscode_input_with_flush
del __vscode_input_with_flush
__vsc_ipynb_file__ = "/home/reader/notebook.ipynb"
%config Completer.use_jedi = False"""
SLEEP = """%%ranks
print("begun")
import time
while True:
    time.sleep(0.05)"""


class VSCode:
    """A kernel, and the requests that the extension sends to it; `cells` counts the reader's."""

    cells = 0

    def __init__(self, traces, folder):
        file, _ = write_connection_file(str(folder / "kernel-v2.json"), ip="127.0.0.1")
        kernel = [sys.executable, "-m", "ipykernel_launcher", f"--f={file}"]
        # the extension's host leads the process group; the kernel does not
        host = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"
        self._host = subprocess.Popen(
            [sys.executable, "-c", host, *kernel],
            env=traces.variables,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.client = BlockingKernelClient(connection_file=file)
        self.client.load_connection_file()
        self.client.start_channels()
        self._wait_ready()

    def _wait_ready(self) -> None:
        """Ask until the kernel answers, on the output channel too."""
        deadline = time.monotonic() + SOON
        while time.monotonic() < deadline:
            self.client.kernel_info()
            with suppress(queue.Empty):
                self.client.get_shell_msg(timeout=1)
                self.client.get_iopub_msg(timeout=1)
                return
        raise TimeoutError("the kernel does not answer")

    @property
    def kernel(self) -> psutil.Process:
        """The kernel's process."""
        (kernel,) = psutil.Process(self._host.pid).children()
        return kernel

    def begin(self, code: str, history: bool = True, subshell: str | None = None) -> str:
        """Send a cell; return the request's id."""
        content = {
            "code": code,
            "silent": False,
            "stop_on_error": False,
            "allow_stdin": True,
            "store_history": history,
            "user_expressions": {},
        }
        message = self.client.session.msg("execute_request", content)
        self.cells += history
        if history:
            message["metadata"]["cellId"] = "vscode-notebook-cell:/home/reader/notebook.ipynb#W0s"
        if subshell:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def read(self, request: str, until: str = "") -> str:
        """What a request shows, until a pattern is in it, or until it has ended."""
        text, deadline = "", time.monotonic() + SOON
        while not (until and re.search(until, text)):
            try:
                message = self.client.get_iopub_msg(timeout=deadline - time.monotonic())
            except (queue.Empty, ValueError):
                raise TimeoutError(text) from None
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                return text
            text += content.get("text", "") + "\n".join(content.get("traceback", []))
        return text

    def run(self, code: str, history: bool = True) -> str:
        """Run a cell to its end; return what it shows, errors too."""
        return COLOUR.sub("", self.read(self.begin(code, history)))

    def control(self, kind: str, content: dict | None = None) -> dict:
        """Send a request on the control channel; return the answer."""
        message = self.client.session.msg(kind, content or {})
        self.client.control_channel.send(message)
        deadline = time.monotonic() + SOON
        while True:
            reply = self.client.get_control_msg(timeout=deadline - time.monotonic())
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return reply["content"]

    def interrupt(self) -> None:
        """What the stop button does: only the kernel hears of it."""
        self.kernel.send_signal(signal.SIGINT)

    def dispose(self) -> None:
        """What closing the notebook does."""
        kernel = self.kernel
        for child in kernel.children(recursive=True):
            os.kill(child.pid, signal.SIGTERM)
        kernel.terminate()
        self._host.wait(SOON)
        self.client.stop_channels()


@pytest.fixture(scope="module")
def code(tmp_path_factory):
    """VS Code with a notebook that has ranks; one serves all tests but that of its end."""
    traces = Traces()
    yield opened(traces, tmp_path_factory.mktemp("vscode"))
    traces.kill()


@pytest.fixture
def traces():
    """What a test's own notebook leaves behind."""
    traces = Traces()
    yield traces
    traces.kill()


def opened(traces: Traces, folder) -> VSCode:
    """VS Code with a notebook in which two ranks have been started."""
    code = VSCode(traces, folder)
    assert code.run(STARTUP, history=False) == ""
    assert code.run(LOAD) == ""
    assert "2 ranks after" in code.run(START)
    return code


def test_cells_run_and_a_failing_rank_is_reported(code):
    assert code.run(SUM) == f"{SHOWN[0]}\n"
    assert SHOWN[1] in code.run(LAUNCH)
    failed = code.run(FAIL)
    assert all(line in failed for line in CAUSE), failed
    # as the notebook numbers it: the start-up code is none
    assert f"Cell In[{code.cells}], line 3" in failed
    assert code.run(SUM) == f"{SHOWN[0]}\n"


def test_a_rank_that_asks_for_input_says_that_it_gets_none(code):
    said = code.run("%%ranks\ninput('name? ')")
    assert "StdinNotImplementedError" in said


@pytest.mark.parametrize("how", ["signal", "message"])
def test_the_stop_button_ends_the_cell_and_keeps_the_ranks(code, how):
    request = code.begin(SLEEP)
    code.read(request, "begun")
    if how == "signal":
        code.interrupt()
    else:
        assert code.control("interrupt_request")["status"] == "ok"
    assert INTERRUPTED in code.read(request)
    assert code.run(SUM) == f"{SHOWN[0]}\n"


def test_a_subshell_sees_the_ranks_while_a_cell_runs(code):
    subshell = code.control("create_subshell_request")["subshell_id"]
    request = code.begin(SLEEP)
    code.read(request, "begun")
    assert "rank 1: process" in code.read(code.begin("%ranks status", False, subshell))
    code.interrupt()
    assert INTERRUPTED in code.read(request)
    code.control("delete_subshell_request", {"subshell_id": subshell})


def test_closing_the_notebook_leaves_nothing(traces, tmp_path):
    code = opened(traces, tmp_path)
    request = code.begin(SLEEP)
    code.read(request, "begun")
    code.dispose()
    assert traces.wait_gone() == []
