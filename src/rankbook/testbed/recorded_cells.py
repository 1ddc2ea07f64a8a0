"""What the pages' ``%%cluster`` cells said in a recorded run, for machines without a cluster."""

import json
from dataclasses import dataclass

from rankbook.testbed.slurm.environment import ROOT

FOLDER = ROOT / "book" / "results"
NAME = "cluster_session"  # of the files: NAME-PAGE.json


@dataclass(frozen=True)
class Recording:
    """A cell of a recorded run: what was run, what it printed, and where and when that was."""

    script: str
    output: str
    where: str
    when: str

    def mark(self, script: str) -> str:
        """A line to print above the output, which does not come from here."""
        other = "" if same(script, self.script) else ", by another version of this cell"
        return f"[skipped here; recorded {self.when}{other}]"


def same(script: str, other: str) -> bool:
    """Whether two versions of a cell do the same, as far as blank space at line ends tells."""
    return [line.rstrip() for line in script.strip().splitlines()] == [
        line.rstrip() for line in other.strip().splitlines()
    ]


def recorded(name: str = NAME) -> dict[str, dict]:
    """The result of each page that has one, by the page's name (``51_slurm``)."""
    paths = sorted(FOLDER.glob(f"{name}-*.json"))
    return {p.stem.partition("-")[2]: json.loads(p.read_text("utf-8")) for p in paths}


def find(name: str) -> Recording | None:
    """What was recorded of the cell called `name`, on whichever page; None if nothing was."""
    for result in recorded("cluster_session").values():  # named here: book/fingerprint.py looks
        if name in result["cells"]:
            cell = result["cells"][name]
            where = f"{result['where']}, {result['slurm']}"
            return Recording(cell["script"], cell["output"], where, result["when"])
    return None
