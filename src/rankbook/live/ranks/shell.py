"""The IPython shell of a rank: what differs from a notebook's own."""

import asyncio
import sys
from contextlib import contextmanager
from signal import SIGINT, signal
from typing import Any

from ipykernel.zmqshell import ZMQExitAutocall, ZMQInteractiveShell
from traitlets import default

from rankbook.live.failure import native
from rankbook.live.ranks import deep, where


class Leave(ZMQExitAutocall):
    """``exit`` and ``quit``, with and without parentheses: as in a program, they raise."""

    def __repr__(self) -> str:
        return "Use exit() to end the cell on this rank."

    def __call__(self, code=None):
        """Raise SystemExit; ipykernel's would end the rank a moment after the cell."""
        __tracebackhide__ = True  # IPython leaves this frame out
        raise SystemExit(*([] if code is None else [code]))


class RankShell(ZMQInteractiveShell):
    """Runs the cells of a rank."""

    task: asyncio.Task | None = None  # the cell's, while one with `await` runs
    interrupted = False  # whether that cell was
    evidence: dict[str, Any] | None = None  # of the last exception that was shown

    @default("exiter")
    def _leave(self):
        return Leave(self)

    def init_prompts(self):
        """No ``sys.ps1``: libraries take it for a session that cannot have several processes."""

    async def run_code(self, code_obj, result=None, *, async_=False):
        """Run a cell; one with `await` can be found by others, and be interrupted."""
        self.task, self.interrupted = asyncio.current_task() if async_ else None, False
        try:
            failed = await super().run_code(code_obj, result, async_=async_)
        finally:
            self.task = None
        if result is not None and self._was_interrupted(result.error_in_exec):
            result.error_in_exec = KeyboardInterrupt()
        if result is not None and result.error_in_exec is not None:
            result.error_in_exec = native.printable(result.error_in_exec)
        return failed

    def showtraceback(self, exc_tuple=None, *args, exception_only=False, **kwargs):
        """Show a traceback; that of SystemExit with its lines, like any other."""
        _, error, trace = exc_tuple or sys.exc_info()
        if self._was_interrupted(error):
            exc_tuple = KeyboardInterrupt, KeyboardInterrupt().with_traceback(trace), trace
        if isinstance(error, SystemExit):
            exception_only, kwargs["running_compiled_code"] = False, True
        if error is not None:
            self.evidence = where.failed(error, self) | {"depth": deep.fold(error)}
            shown = native.printable((exc_tuple or sys.exc_info())[1] or error)
            exc_tuple = type(shown), shown, shown.__traceback__
            if deep.has_parts(shown):  # IPython would print it beside the report
                return self._showtraceback(*exc_tuple[:2], deep.with_parts(shown, self.user_ns))
        return super().showtraceback(exc_tuple, *args, exception_only=exception_only, **kwargs)

    def _was_interrupted(self, error) -> bool:
        return self.interrupted and isinstance(error, asyncio.CancelledError)

    @contextmanager
    def interruptible(self, future: asyncio.Future):
        """Let SIGINT end a cell with `await`, whether it waits or computes.

        A KeyboardInterrupt in a task of asyncio that is not the cell's would end the event loop,
        and so the rank: there it is a cancellation.
        """

        def stop(_signum, frame):
            self.interrupted = True
            running = asyncio.current_task(future.get_loop())
            while running and frame is not None:
                if frame.f_globals is self.user_ns:
                    raise KeyboardInterrupt if running is future else asyncio.CancelledError
                frame = frame.f_back
            future.get_loop().call_soon_threadsafe(future.cancel)

        before = signal(SIGINT, stop)
        try:
            yield
        finally:
            signal(SIGINT, before)
