"""What torchrun starts for every rank of a ``%%torchrun`` cell: it runs the cell as ``__main__``.

Started by path (cold) or called in a forked process that has torch loaded (warm). Uses the
standard library only, so that a cell which does not need torch does not wait for it.
"""

import os
import sys
import time
import types
from pathlib import Path

if __name__ == "__main__":  # started by path: find this package, not this folder
    sys.path[0] = str(Path(__file__).parents[3])

from rankbook.core.parent_death import die_with_parent
from rankbook.live.screen.readable import show_readable_warnings
from rankbook.live.torchrun import witness, worker_failure
from rankbook.live.torchrun.loopback import keep_worker_to_loopback
from rankbook.live.torchrun.notes import LAUNCH, next_name, read_note, write_note

AGENT = "RANKBOOK_AGENT"  # the agent's process id, where the agent is this process's parent


def main(arguments: list[str]) -> int:
    """Run the launch's cell with `arguments` as its ``sys.argv[1:]``; return the exit code."""
    launch = Path(os.environ[LAUNCH])
    request = read_note(launch / "request.json")
    cell = launch / "cell.py"
    write_note(launch / "workers" / next_name(), _who_am_i())
    stack = launch / "stacks" / str(os.getpid())
    worker_failure.record_where_signals_hit(stack)
    witness.listen(launch, str(cell))
    show_readable_warnings(str(cell))
    keep_worker_to_loopback()
    module = types.ModuleType("__main__")
    module.__file__ = str(cell)  # a real file: tracebacks, inspect and spawned children find it
    sys.modules["__main__"] = module
    sys.path[:] = request["path"]
    sys.argv = [str(cell), *arguments]
    recording = _recording()
    try:
        source = cell.read_text(encoding="utf-8")
        exec(compile(source, str(cell), "exec", dont_inherit=True), module.__dict__)
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            _leaves_well(launch, cell)
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and stack.stat().st_size:  # a signal's
            return 130
        # torchrun may be ending us already, for another rank's failure
        with worker_failure.in_peace():
            report = worker_failure.describe(error, str(cell)) | {"pid": os.getpid()}
            write_note(launch / "reports" / next_name(), report)
            worker_failure.tell_agent(report)
            witness.ask_the_others(launch)
            if recording:
                recording.failed(error)
        return 1
    _leaves_well(launch, cell)
    return 0


def _recording() -> types.ModuleType | None:
    """The autopsy's recorder where the reader wants it; a fork has not come by it so far."""
    if not os.environ.get("RANKBOOK_AUTOPSY"):
        return None
    from rankbook.autopsy import recording

    recording.record()
    return recording


def _leaves_well(launch: Path, cell: Path) -> None:
    """Others may still wait for this rank: say that it has gone, when, and what it called."""
    note = {"time": time.time(), "calls": witness.calls(str(cell))}
    write_note(launch / "exits" / f"{os.getpid()}.json", note)


def _who_am_i() -> dict:
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT")
    place = {name.removeprefix("TORCHELASTIC_").lower(): int(os.environ[name]) for name in names}
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    # torchrun keeps a rank's output beside its error file.
    return place | {"pid": os.getpid(), "logs": str(Path(error_file).parent) if error_file else ""}


if __name__ == "__main__":
    if parent := os.environ.get(AGENT):
        die_with_parent(int(parent))
    sys.exit(main(sys.argv[1:]))
