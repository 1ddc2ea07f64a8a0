"""Set-ups of Slurm that clusters differ by: which lines of slurm.conf each one changes.

They may be combined with commas: ``contain,gpus``. Sources: https://slurm.schedmd.com/slurm.conf.html,
https://slurm.schedmd.com/gres.conf.html, https://slurm.schedmd.com/cgroup.conf.html
"""

from pathlib import Path

from rankbook.testbed.slurm import groups

GPUS = 2  # of a node, which are devices that do nothing

# of a set-up, the lines of slurm.conf that it replaces; None leaves a line out
SETUPS: dict[str, dict[str, str | None]] = {
    "notice": {},  # as the file has it: a job that is preempted gets its --signal
    # Every process of a step is known and ended with it, and every job has the step "extern".
    "contain": {"ProctrackType": "proctrack/cgroup", "PrologFlags": "Contain"},
    # As Slurm does it by itself: SIGTERM to the steps, and the batch script is told nothing.
    "default_preemption": {"SlurmctldParameters": None},
    "gpus": {"GresTypes": "gpu"},
}


def words(setup: str) -> list[str]:
    """The set-ups named, commas between them. Raises ValueError on one that is unknown."""
    named = [word for word in setup.replace(" ", "").split(",") if word]
    if unknown := [word for word in named if word not in SETUPS]:
        raise ValueError(f"no set-up {unknown[0]!r}; there are {', '.join(SETUPS)}")
    return named


def changes(setup: str) -> dict[str, str | None]:
    """The lines of slurm.conf that `setup` replaces, by their keys; None: left out.

    Where no cgroup can be made, processes are tracked by their parents (``proctrack/linuxproc``).
    """
    found = {key: value for word in words(setup) for key, value in SETUPS[word].items()}
    if "ProctrackType" in found and not groups.possible():
        found["ProctrackType"] = "proctrack/linuxproc"
    return found


def changed(conf: str, setup: str) -> str:
    """The text of slurm.conf as `setup` has it."""
    new = changes(setup)
    gpus = f" Gres=gpu:{GPUS}" if "gpus" in words(setup) else ""
    lines = []
    for line in conf.splitlines():
        key = line.partition("=")[0]
        if key == "NodeName":
            line = f"{line}{gpus}"
        if key in new:
            value = new.pop(key)
            if value is None:
                continue
            line = f"{key}={value}"
        lines.append(line)
    nodes = (i for i, line in enumerate(lines) if line.startswith("NodeName="))
    first = next(nodes, len(lines))
    more = [f"{key}={value}" for key, value in new.items() if value is not None]
    return "\n".join([*lines[:first], *more, *lines[first:]]) + "\n"


def beside(setup: str, folder: Path) -> dict[str, str]:
    """The files that Slurm reads beside slurm.conf, by name."""
    files = {}
    if "contain" in words(setup):
        files["cgroup.conf"] = f"CgroupPlugin=cgroup/v1\nCgroupMountpoint={folder}/cgroup\n"
    if "gpus" in words(setup):  # /dev/null, /dev/zero: any device; it is only counted here
        files["gres.conf"] = "Name=gpu File=/dev/null\nName=gpu File=/dev/zero\n"
    return files
