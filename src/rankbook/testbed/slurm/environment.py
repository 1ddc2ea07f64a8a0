"""What a login shell of the cluster has in its environment; jobs inherit it, as on any cluster."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]  # the checkout, where scripts and jobs begin
SLURMS = ("SLURM_", "SBATCH_", "SALLOC_", "SRUN_", "SQUEUE_", "SINFO_", "SCANCEL_")


def environment(conf: Path, shared: Path) -> dict[str, str]:
    """The caller's environment with this project's Python first, and without another Slurm's words.

    conf: the slurm.conf. shared: the folder that scripts find as ``$SHARED``.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SLURMS)}
    path = [str(Path(sys.executable).parent), kept.get("PATH", ""), "/usr/sbin", "/sbin"]
    modules = [str(ROOT / "src"), kept.get("PYTHONPATH", "")]
    return {
        **kept,
        "PATH": ":".join(filter(None, path)),
        "PYTHONPATH": ":".join(filter(None, modules)),
        "PWD": str(ROOT),
        "SLURM_CONF": str(conf),
        "SHARED": str(shared),
        "SBATCH_OUTPUT": str(shared / "slurm-%j.out"),  # no job writes into the checkout
    }
