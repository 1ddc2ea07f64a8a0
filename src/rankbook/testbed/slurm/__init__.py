"""A real Slurm cluster of a few hosts, made of one Linux machine."""

from rankbook.testbed.slurm.cluster import Cluster
from rankbook.testbed.slurm.possible import why_not
from rankbook.testbed.slurm.script import ScriptFailed
from rankbook.testbed.slurm.setups import SETUPS

__all__ = ["SETUPS", "Cluster", "ScriptFailed", "why_not"]
