"""A measured result, and where it was measured: the form of all files of ``book/results``."""

import datetime
import json
import os
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankbook.core.atomic import write_text_atomic

if TYPE_CHECKING:
    import torch


def machine(device: "torch.device | None" = None) -> str:
    """This machine in words that name no host: "2 CPU cores, x86_64", "1 x NVIDIA H200".

    device: what was measured on, if it is not the GPU wherever there is one.
    """
    import torch  # slow: here, so that a program's --help need not wait for it

    if torch.cuda.is_available() if device is None else device.type == "cuda":
        return f"{torch.cuda.device_count()} x {torch.cuda.get_device_name(device or 0)}"
    return f"{len(os.sched_getaffinity(0))} CPU cores, {platform.machine()}"


@dataclass(frozen=True)
class Result:
    """What was measured, in a table of `rows`, with all that it takes to measure it again.

    libraries: their versions by name. command: what repeats it. where, python, when: this
    machine, this Python and today, unless they are given. more: what else the file says.
    """

    what: str
    rows: list[dict[str, Any]]
    command: str
    libraries: dict[str, str]
    where: str = field(default_factory=machine)
    python: str = field(default_factory=platform.python_version)
    when: str = field(default_factory=lambda: datetime.date.today().isoformat())
    more: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As the file has it: the table comes last."""
        return {
            "what": self.what,
            "where": self.where,
            "python": self.python,
            "libraries": self.libraries,
            "when": self.when,
            "command": self.command,
            **self.more,
            "rows": self.rows,
        }

    def write(self, path: Path) -> Path:
        """Write the file, whole or not at all; return `path`. Raises OSError."""
        text = json.dumps(self.as_dict(), indent=1, ensure_ascii=False)
        return write_text_atomic(path, text + "\n")
