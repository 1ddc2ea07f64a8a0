"""One world at a time saves in a folder: the one that began last. An older one's save is refused.

Two worlds can train at once, each believing to be the whole job: the store of their agents may
take a node for dead that is only late, and never tells it. What they share is the folder.

Every world has a *gate* there, ``.world-00000003-1b2f04d7``, in which its checkpoints grow, and
from which a rename makes them visible. Whoever begins makes the gate with the next number, and
then takes the older ones away: from then on the file system itself refuses an older world's
rename, however long that world has stood still between two lines. The gate is a *fencing token*,
and the storage checks it.
Source: https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html
"""

import contextlib
import errno
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from rankbook.core.atomic import hidden, sync_folder
from rankbook.training.checkpoint.errors import CheckpointError

_GATE = re.compile(r"\.world-\d{8}-[0-9a-f]{8}")
_GONE = {errno.ENOENT, errno.ESTALE}  # the second is what a network file system may say


class Superseded(CheckpointError):
    """Another world has begun on this folder since: this one must not save there any more."""


def gates(folder: Path) -> list[Path]:
    """The gates in `folder`, the oldest first. Raises OSError."""
    return sorted(path for path in folder.iterdir() if _GATE.fullmatch(path.name))


def take_over(folder: Path) -> Path:
    """Make the newest gate of `folder`, take all older ones away, return it. Raises OSError.

    What an older world has not yet made visible is lost with its gate.
    """
    folder.mkdir(parents=True, exist_ok=True)
    mine = _make(folder)
    while [gate for gate in gates(folder) if gate > mine]:  # begun in the same moment
        with contextlib.suppress(FileNotFoundError):
            mine.rmdir()
        mine = _make(folder)
    for gate in gates(folder):
        if gate < mine:
            with contextlib.suppress(FileNotFoundError):  # a newer world was faster
                gate.rename(hidden(gate))
    for gone in folder.glob("..world-*.tmp"):
        shutil.rmtree(gone, ignore_errors=True)
    sync_folder(folder)
    return mine


def _make(folder: Path) -> Path:
    """A gate with the next number; the digits behind it make sure that none ever comes back."""
    number = max((int(gate.name.split("-")[1]) for gate in gates(folder)), default=0) + 1
    gate = folder / f".world-{number:08}-{uuid.uuid4().hex[:8]}"
    gate.mkdir()
    return gate


@contextlib.contextmanager
def fenced(gate: Path, folder: Path) -> Iterator[None]:
    """Raise Superseded where what is inside does not find `gate`, which a newer world took away.

    A gate that is `folder` itself is none: then nothing is refused.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _GONE or gate == folder or gate.is_dir():
            raise
        raise Superseded(
            f"another world has taken over {folder} since this one began, and saves there; this "
            "one ends, so that there is one: its agent may join the other"
        ) from error


def publish(path: Path, folder: Path) -> Path:
    """Make the finished checkpoint `path` visible in `folder`; return where it is now.

    One rename: it fails where the gate in which `path` grew is gone.
    """
    if path.parent == folder:
        return path
    path = path.rename(folder / path.name)
    sync_folder(folder)
    return path
