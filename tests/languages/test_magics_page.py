"""The reference page of the magics names what the magics take, in both languages."""

import re
from pathlib import Path

import pytest

from rankbook.magics import cluster, ranks, torchrun

ROOT = Path(__file__).resolve().parents[2]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
TORCHRUNS_OWN = {"--standalone", "--nproc-per-node", "--epochs"}  # its options, and a program's


def documented() -> set[str]:
    """Options and commands of the magics' own help."""
    magics = {
        "ranks": (ranks.RanksMagics.ranks, ranks.COMMANDS),
        "torchrun": (torchrun.TorchrunMagics.torchrun, torchrun.COMMANDS),
        "cluster": (cluster.ClusterMagics.cluster, cluster.COMMANDS),
    }
    options = {word for magic, _ in magics.values() for word in OPTION.findall(magic.__doc__)}
    commands = {f"%{name} {word}" for name, (_, words) in magics.items() for word in words}
    assert options and commands
    return options | commands


@pytest.mark.parametrize("language", ["en", "zh"])
def test_everything_is_named_and_nothing_invented(language):
    page = (ROOT / "book" / language / "magics.md").read_text("utf-8")
    missing = {word for word in documented() if word not in page}
    assert not missing, f"not on the page: {sorted(missing)}"
    invented = set(OPTION.findall(page)) - documented() - TORCHRUNS_OWN
    assert not invented, f"not in the magics' help: {sorted(invented)}"
