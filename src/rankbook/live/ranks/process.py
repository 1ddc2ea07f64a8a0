"""One rank as the notebook sees it: its process, its channels, and how it ended."""

import hmac
import multiprocessing
import os
import re
import signal
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path

import zmq
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.connect import write_connection_file

from rankbook.live.errors import UsageError
from rankbook.live.failure.report import process_ended
from rankbook.live.ranks import rank_forkserver
from rankbook.live.ranks.entry import run_rank
from rankbook.live.ranks.spec import RankSpec

_ONE_AT_A_TIME = threading.RLock()  # a channel is no good to two threads


class RankProcess:
    """A rank's kernel: start it, send it cells, read what it says, see it die."""

    def __init__(self, context, spec: RankSpec, environment: dict[str, str]):
        self.spec, self.rank = spec, spec.rank
        write_connection_file(
            spec.connection_file,
            transport="ipc",  # unix sockets: no port, and only this user gets into the directory
            ip=f"{spec.directory}/k{spec.rank}",
            key=uuid.uuid4().bytes.hex().encode(),
        )
        self._ready, child_end = multiprocessing.Pipe(duplex=False)
        # Not a daemon: a rank may start processes of its own (a DataLoader's workers).
        self.process = context.Process(
            target=run_rank, args=(spec, environment, child_end), name=f"rank {spec.rank}"
        )
        rank_forkserver.start(self.process)
        child_end.close()
        self.pid = self.process.pid
        self._client: BlockingKernelClient | None = None

    def wait_ready(self, deadline: float) -> None:
        """Wait until the kernel listens, then connect; `deadline` is a `time.monotonic()`."""
        if not self._ready.poll(max(0.0, deadline - time.monotonic())):
            raise UsageError(f"rank {self.rank} did not start in time; is the machine overloaded?")
        try:
            self._ready.recv()
        except EOFError:
            self.process.join(2)
            raise UsageError(f"rank {self.rank} ended while it started: {self.ending()}") from None
        self._ready.close()
        self._client = BlockingKernelClient(connection_file=self.spec.connection_file)
        self._client.load_connection_file()
        self._client.start_channels(stdin=False, hb=False)
        self._await_subscription(deadline)

    def _await_subscription(self, deadline: float) -> None:
        """Output sent before the subscription is known to the rank would be lost.

        A rank greets each subscription, nearly always: it may overlook one that comes while it
        sends something (a zmq socket tells of news once). So a rank that does not greet is asked
        for something, which it answers on the output channel as well, once it knows of us.
        """
        while time.monotonic() < deadline:
            if self.iopub.poll(200) and any(True for _ in self.messages(self.iopub)):
                return
            if not self.alive:
                raise UsageError(f"rank {self.rank} ended while it started: {self.ending()}")
            self._request(self.client.shell_channel, "kernel_info", {})
        raise UsageError(f"rank {self.rank} started but does not answer")

    @property
    def client(self) -> BlockingKernelClient:
        """The line to the kernel, once it listens."""
        assert self._client is not None, "wait_ready was not called"
        return self._client

    @property
    def shell(self) -> zmq.Socket:
        """The channel that cells go to and replies come from."""
        return self.client.shell_channel.socket

    @property
    def iopub(self) -> zmq.Socket:
        """The channel that output comes from."""
        return self.client.iopub_channel.socket

    def messages(self, socket: zmq.Socket):
        """Every message that waits on `socket`, without waiting for more."""
        session = self.client.session
        while True:
            try:
                frames = socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            _, (signature, *parts) = session.feed_identities(frames)
            if not hmac.compare_digest(signature, session.sign(parts[:4])):
                raise ValueError(f"rank {self.rank} sent a message with a wrong signature")
            # Session.recv also parses the dates in every header, which is half of a cell's time.
            header, parent, _, content = parts[:4]
            header = session.unpack(header)
            yield {
                "msg_type": header["msg_type"],
                "parent": session.unpack(parent).get("msg_id"),
                "content": session.unpack(content),
            }

    def execute(self, code: str, silent=False, number: int | None = None, **options) -> str:
        """Send a cell; return the id that its messages will carry as their parent's.

        options: time, whether to measure waiting; check, whether to compare collectives.
        """
        content = {
            "code": code,
            "silent": silent,
            "store_history": not silent,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        message = self.client.session.msg("execute_request", content)
        message["metadata"].update(options, execution_count=number)
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def complete(self, code: str, cursor: int, seconds: float) -> dict | None:
        """Ask the kernel to complete `code`; None if it is busy."""
        channel = self.client.shell_channel
        request = self._request(channel, "complete", {"code": code, "cursor_pos": cursor})
        return self._reply(channel, request, time.monotonic() + seconds)

    def _request(self, channel, kind: str, content: dict) -> str:
        message = self.client.session.msg(f"{kind}_request", content)
        channel.send(message)
        return message["header"]["msg_id"]

    def _reply(self, channel, request: str, deadline: float) -> dict | None:
        while (left := deadline - time.monotonic()) > 0 and self.alive:
            if channel.socket.poll(min(left, 0.1) * 1000):
                for reply in self.messages(channel.socket):
                    if reply["parent"] == request:
                        return reply["content"]
        return None

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.is_alive()

    def signal(self, number: int) -> None:
        """Send the process a signal; nothing happens if it has ended."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def ending(self) -> str:
        """How the process ended, in words."""
        code = self.process.exitcode
        return "it is running" if code is None else process_ended(code)

    def crash_report(self) -> str:
        """The reader's own part of the stack that a crash left; empty if there was no crash."""
        with suppress(FileNotFoundError):
            stack = Path(self.spec.crash_file).read_text().partition("Current thread")[2]
            frames = re.findall(r'File "(.+)", line (\d+) in (.+)', stack)
            cell = [i for i, (file, _, _) in enumerate(frames) if "/ipykernel_" in file]
            return "\n".join(
                f"  in {name}, line {line} of {'the cell' if '/ipykernel_' in file else file}"
                for file, line, name in frames[: cell[-1] + 1 if cell else 0]
            )
        return ""

    def interrupt_and_shut_down(self) -> None:
        """Ask the kernel to leave, without waiting for it."""
        if self._client is not None and self.alive:
            self.signal(signal.SIGINT)
            message = self.client.session.msg("shutdown_request", {"restart": False})
            with suppress(zmq.ZMQError):
                self.client.control_channel.send(message)

    def stop(self, deadline: float) -> None:
        """End the process by `deadline`, and then everything in its process group."""
        if self._client is not None and self.alive:
            self.process.join(max(0.0, deadline - time.monotonic()))
        if self.alive:
            self.process.kill()
            self.process.join()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)  # what the rank itself started
        if self._client is not None:
            self.client.stop_channels()
            self.client.context.term()
        self._ready.close()
        self.process.close()


def control(
    ranks: list[RankProcess], kind: str, seconds: float = 1.0, **content
) -> dict[int, dict]:
    """Ask all `ranks` at once what they answer while a cell runs: "where", "cut", "standing".

    Returns the answers by rank, of those that gave one within `seconds`. Any thread may ask.
    """
    with _ONE_AT_A_TIME:
        deadline = time.monotonic() + seconds
        lines = {p.rank: (p, p.client.control_channel) for p in ranks}
        sent = {r: p._request(line, kind, content) for r, (p, line) in lines.items()}
        replies = {r: p._reply(line, sent[r], deadline) for r, (p, line) in lines.items()}
    return {rank: reply for rank, reply in replies.items() if reply is not None}
