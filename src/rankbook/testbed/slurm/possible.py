"""Whether this machine can have a cluster."""

import os
import shutil
import subprocess
from functools import cache

from rankbook.testbed.hosts import search_path

# what a cluster is made of, and the packages of Debian and Ubuntu that have it
COMMANDS = {
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "munged": "munge",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
TRY = (
    "ip link add switch type bridge && ip link add port type veth peer name eth0"
    " && mount -t tmpfs none /tmp"
)
NAMESPACES = ("--pid", "--fork", "--mount", "--net", "--uts", "--ipc")


def why_not() -> str:
    """Why this machine can have no cluster, in one sentence; an empty string if it can."""
    if os.environ.get("RANKBOOK_NO_CLUSTER"):
        return "switched off by RANKBOOK_NO_CLUSTER"
    if missing := [
        command for command in COMMANDS if not shutil.which(command, path=search_path())
    ]:
        packages = " ".join(dict.fromkeys(COMMANDS[command] for command in missing))
        return f"{', '.join(missing)} not found (Debian and Ubuntu: the packages {packages})"
    if os.geteuid() != 0:
        return "hosts made of namespaces need root"
    return _refused()


@cache
def _refused() -> str:
    tried = subprocess.run(
        ["unshare", *NAMESPACES, "sh", "-c", TRY],
        env={**os.environ, "PATH": search_path()},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    if not tried.returncode:
        return ""
    said = tried.stderr.strip().splitlines() or [f"status {tried.returncode}"]
    return f"this kernel permits no hosts made of namespaces: {said[-1]}"
