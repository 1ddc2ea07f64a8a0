"""Files that are there whole or not at all, whenever the process or the machine stops."""

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_atomic(path: Path, write: Callable[[BinaryIO], object]) -> Path:
    """Make the file at `path`, in place of the one that may be there, in one step.

    write: is called with a file to write into. A str that it returns is the name that the file
    gets instead of `path`'s, in the same folder: one that is known only when all is written, such
    as a checksum. Returns where the file is. Until it is on the disk, a hidden file beside it
    grows; it is removed when `write` raises, and stays behind when the process is killed
    (`.NAME.*.tmp`). Raises what `write` raises, and OSError: a full disk, an unwritable folder.

    A rename replaces a name at once, but says nothing of contents that are not on the disk yet:
    hence the order. Source: https://pubs.opengroup.org/onlinepubs/9699919799/functions/rename.html
    and the notes in https://man7.org/linux/man-pages/man2/fsync.2.html
    """
    path = Path(path)
    growing = hidden(path)
    try:
        with growing.open("xb") as file:
            name = write(file)
            file.flush()
            os.fsync(file.fileno())  # the contents first ...
        if isinstance(name, str):
            path = path.with_name(name)
        growing.replace(path)  # ... then the name ...
    except BaseException:
        growing.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)  # ... then the folder, which holds the name
    return path


def write_text_atomic(path: Path, text: str) -> Path:
    """Make the file at `path` of `text`, in UTF-8, as `write_atomic` does."""
    return write_atomic(path, lambda file: file.write(text.encode()))


def hand_over(path: Path, text: str) -> None:
    """Make the file at `path` of `text`, in one step, for processes that wait for it.

    They see all of it or nothing. The disk is not waited for: it is of no use after a crash.
    """
    growing = hidden(path)
    growing.write_text(text, encoding="utf-8")
    growing.replace(path)


def hidden(path: Path) -> Path:
    """A new name beside `path` for what is not ready: ``.NAME.*.tmp``."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")


def sync_folder(folder: Path) -> None:
    """Return when the names in `folder` are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
