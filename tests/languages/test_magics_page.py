"""The reference page of the magics names what the magics take, in both languages."""

import re
from pathlib import Path

import pytest

from rankbook import magics, magics_torchrun
from rankbook.cluster import magic as cluster

ROOT = Path(__file__).resolve().parents[2]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
TORCHRUNS_OWN = {"--standalone", "--nproc-per-node", "--epochs"}  # its options, and a program's


def documented() -> set[str]:
    """Options and commands of the magics' own help."""
    ranks, torchrun = magics.RanksMagics.ranks, magics_torchrun.TorchrunMagics.torchrun
    clusters = cluster.ClusterMagics.cluster
    options = set(OPTION.findall(ranks.__doc__ + torchrun.__doc__ + clusters.__doc__))
    commands = {f"%torchrun {command}" for command in magics_torchrun.COMMANDS}
    commands |= {f"%ranks {word}" for word in re.findall(r"\w+", magics.COMMANDS) if word != "or"}
    commands |= {f"%cluster {command}" for command in cluster.COMMANDS}
    return options | commands


@pytest.mark.parametrize("language", ["en", "zh"])
def test_everything_is_named_and_nothing_invented(language):
    page = (ROOT / "book" / language / "magics.md").read_text("utf-8")
    missing = {word for word in documented() if word not in page}
    assert not missing, f"not on the page: {sorted(missing)}"
    invented = set(OPTION.findall(page)) - documented() - TORCHRUNS_OWN
    assert not invented, f"not in the magics' help: {sorted(invented)}"
