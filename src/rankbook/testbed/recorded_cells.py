"""What the chapter's cells said in a recorded run, for machines that can have no cluster."""

import json
from dataclasses import dataclass

from rankbook.testbed.slurm.environment import ROOT

PATH = ROOT / "book" / "results" / "cluster-session.json"


@dataclass(frozen=True)
class Recording:
    """A cell of the recorded run: what was run, what it printed, and where and when that was."""

    script: str
    output: str
    where: str

    def mark(self, script: str) -> str:
        """A line to print above the output, which does not come from here."""
        other = "" if same(script, self.script) else ", of another version of this cell"
        return f"recorded on {self.where}{other}:"


def same(script: str, other: str) -> bool:
    """Whether two versions of a cell do the same, as far as blank space at line ends tells."""
    return [line.rstrip() for line in script.strip().splitlines()] == [
        line.rstrip() for line in other.strip().splitlines()
    ]


def find(name: str) -> Recording | None:
    """What was recorded of the cell called `name`; None if nothing was."""
    if not PATH.exists():
        return None
    result = json.loads(PATH.read_text("utf-8"))
    if name not in result["cells"]:
        return None
    cell = result["cells"][name]
    where = f"{result['where']}, {result['slurm']}, {result['when']}"
    return Recording(cell["script"], cell["output"], where)
