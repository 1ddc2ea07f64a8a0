"""A real Slurm cluster of a few hosts, made of one Linux machine; and magics to use it."""

from rankbook.cluster.possible import why_not
from rankbook.cluster.script import ScriptFailed
from rankbook.cluster.slurm import Cluster

__all__ = ["Cluster", "ScriptFailed", "why_not"]


def load_ipython_extension(ip):
    """Add ``%cluster`` and ``%%cluster`` to the IPython shell `ip`."""
    from rankbook.cluster.magic import ClusterMagics

    ip.register_magics(ClusterMagics)
