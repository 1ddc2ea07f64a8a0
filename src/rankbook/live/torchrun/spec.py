"""What to launch, written down for every process of the launch."""

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from rankbook.live.torchrun.notes import LAUNCH, write_note
from rankbook.live.torchrun.publish import DIRECTORY

NODE = "RANKBOOK_NODE"


@dataclass(frozen=True)
class LaunchSpec:
    """torchrun's options and the program's arguments, as the reader gave them.

    node: a name among several agents, or "". rdzv_endpoint, rdzv_id, rdzv_host: the rendezvous
    that the agents of one job share (``host:port`` and its id, as of torchrun's options), and
    whether this agent hosts it; rdzv_endpoint is None for a launch by itself.
    """

    options: list[str]
    program: list[str]
    node: str = ""
    rdzv_endpoint: str | None = None
    rdzv_id: str = ""
    rdzv_host: bool = False

    def write(self, directory: Path, cell: str) -> None:
        """Fill a new, private directory with all that the processes of a launch read."""
        directory.mkdir(mode=0o700)
        (directory / "cell.py").write_text(cell, encoding="utf-8")
        environment = {"OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"} | dict(os.environ)
        if environment.get("MPLBACKEND", "").startswith("module://"):
            del environment["MPLBACKEND"]  # it draws into a notebook; a program has none
        environment |= {LAUNCH: str(directory), DIRECTORY: str(directory / "published")}
        if self.node:
            environment[NODE] = self.node  # programs write it into their records
        about = asdict(self) | {
            "environment": environment,
            "cwd": str(Path.cwd()),
            "path": sys.path,
        }
        write_note(directory / "request.json", about)
