"""A run in a folder: begun there, or gone on with, by the options that it was begun with."""

import json
from pathlib import Path
from typing import Any

from rankbook.core.agreement import broadcast_from_rank0
from rankbook.core.atomic import write_text_atomic
from rankbook.training.checkpoint.errors import explain_oserror

# what a run.json does not name that was written before there was the option
BEFORE = {"sync": "every"}


def open_run(folder: Path, deciding: dict[str, Any], resume: bool) -> None:
    """Begin a run in `folder`, or find the one to go on with; on all ranks.

    deciding: the options that a run has to keep, by their names. They are kept in ``run.json``.
    Raises ValueError, on all ranks, where there is a run and none was asked for, the other way
    round, and where the run was begun with other options; OSError for a folder of no use.
    """
    broadcast_from_rank0(lambda: _open(folder, deciding, resume))


def _open(folder: Path, deciding: dict[str, Any], resume: bool) -> None:
    about, text = folder / "run.json", json.dumps(deciding, default=str)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--checkpoint {folder} is a file; name a folder, or a new one")
    exists = about.is_file()
    if exists and not resume:
        raise ValueError(f"{folder} holds a run; go on with it by --resume, or name another folder")
    if resume and not exists:
        raise ValueError(f"{folder} holds no run to resume; leave out --resume to begin one")
    if exists:
        check_same(json.loads(text), read(about), folder)
    else:
        with explain_oserror(f"no run can be kept in {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
            write_text_atomic(about, text + "\n")


def read(about: Path) -> dict[str, Any]:
    """The options in a ``run.json``. Raises ValueError, which names it, if it is damaged."""
    try:
        kept = json.loads(about.read_bytes())
    except ValueError as error:
        kept = error
    if not isinstance(kept, dict):
        why = f": {kept}" if isinstance(kept, ValueError) else ""
        raise ValueError(
            f"{about} does not hold the options of a run, as JSON{why}; bring it back from a copy, "
            "or begin a new run in another folder"
        )
    return kept


def check_same(options: dict[str, Any], kept: dict[str, Any], folder: Path) -> None:
    """Raise ValueError if the run in the folder was begun with other options than these."""
    kept = BEFORE | kept
    for name, value in options.items():
        if kept.get(name) != value:
            given = "not given" if value is None else value
            had = "none" if kept.get(name) is None else kept[name]
            raise ValueError(
                f"--{name.replace('_', '-')} is {given}, but the run in {folder} has {had}; give "
                "the same, or start a new run in another folder"
            )
