"""Where data comes from: $RANKBOOK_DATA, then the Hugging Face hub, then what is embedded here.

Each finder either gives its data, or says in an Absent why it has none and the search goes on.
Damage is no absence: a half-present folder or a wrong checksum ends the search with an error.
"""

import functools
import hashlib
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

FOLDER = "RANKBOOK_DATA"  # the variable that names the reader's own data folder
CACHE = "RANKBOOK_CACHE"  # the variable that names another folder for what was made of the data

SHA256 = {
    "wikitext-2/train.txt": "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
    "wikitext-2/valid.txt": "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
    "wikitext-2/test.txt": "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
    "imdb/movie_data.csv.xz": "8bd8dd139c068085376e7e83f7008a40dd9ea5a69f79c6aaca12a9b9e1e33347",
    "distilbert-vocab/vocab.txt": (
        "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
    ),
}

Data = TypeVar("Data")
Finder = Callable[[], tuple[Data, str]]


class Absent(Exception):
    """This source does not have the data; the message says why, as part of a sentence."""


def search(what: str, *finders: Finder) -> tuple[Data, str]:
    """Return the data of the first of `finders` that has it, and one line saying where it was.

    A finder returns ``(data, where)`` or raises Absent. The line names what was taken, and why
    the sources before it were passed over; it is printed once a process, by rank 0 alone.

    Raises LookupError when no finder has the data.
    """
    passed_over = []
    for find in finders:
        try:
            data, where = find()
        except Absent as reason:
            passed_over.append(str(reason))
            continue
        line = f"{what}: {where}" + (f" ({'; '.join(passed_over)})" if passed_over else "")
        announce(line)
        return data, line
    raise LookupError(f"{what} was found nowhere: {'; '.join(passed_over)}.")


@functools.cache
def announce(line: str) -> None:
    """Print `line`, once a process however often it is asked for, and on rank 0 only."""
    if os.environ.get("RANK", "0") == "0":
        print(line)


def local_files(folder: str) -> tuple[dict[str, bytes], str]:
    """Read and check every file of `folder` ("wikitext-2", "imdb", ...) in $RANKBOOK_DATA.

    Returns the contents by file name, and words that say where they were.

    Raises Absent when the variable is unset or the folder is not there at all, FileNotFoundError
    for a data folder that does not exist or is half-present, ValueError for a wrong checksum.
    """
    root = _root()
    here = root / folder
    if not here.is_dir():
        raise Absent(f"${FOLDER} has no folder {folder}")
    names = [Path(name).name for name in SHA256 if Path(name).parent.name == folder]
    missing = [name for name in names if not (here / name).is_file()]
    if missing:
        raise FileNotFoundError(
            f"{here} is half-present: {' and '.join(missing)} not there; copy the whole folder "
            f"again, or unset {FOLDER} to use another source."
        )
    return {name: _checked(here / name, SHA256[f"{folder}/{name}"]) for name in names}, (
        f"the files of ${FOLDER}/{folder}"
    )


def need(package: str, purpose: str) -> ModuleType:
    """Import `package`; without it, raise an ImportError with its `purpose` and how to get it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{purpose} needs the package {package}, and this Python does not have it; "
            f"install it with: pip install {package}"
        ) from error


def _root() -> Path:
    """Return the folder that the variable names; an empty variable counts as unset."""
    named = os.environ.get(FOLDER)
    if not named:
        raise Absent(f"${FOLDER} is not set")
    root = Path(named).expanduser().absolute()
    folders = sorted({Path(name).parent.name for name in SHA256})
    if not root.is_dir():
        raise FileNotFoundError(
            f"{FOLDER} names {root}, which is no folder; set it to the folder that holds "
            f"{', '.join(folders)}, or unset it."
        )
    # All three missing is a mistyped path rather than a choice: better said than searched around.
    if not any((root / folder).is_dir() for folder in folders):
        raise FileNotFoundError(
            f"{FOLDER} names {root}, which holds none of {', '.join(folders)}; correct it, "
            "or unset it."
        )
    return root


def _checked(path: Path, expected: str) -> bytes:
    """Return the bytes of `path`. What is hashed is what is used, so nothing can change between."""
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise ValueError(
            f"{path} is not the file this book was tested with: its SHA-256 begins with "
            f"{found[:12]}, not {expected[:12]}; copy it again, or unset {FOLDER}."
        )
    return content


def cache_folder() -> Path:
    """Where ids are kept: ``$RANKBOOK_CACHE``, or ``~/.cache/rankbook``. It need not exist."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "rankbook"
    return Path(os.environ.get(CACHE) or default).expanduser()
