"""The cable between two nodes is pulled: nobody is missing, and the autopsy says where to look."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.autopsy import Finding, Job, judge, read
from rankbook.testbed.hosts import Host, two_hosts, why_not
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]

REASON = why_not()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


def start(host: Host, first: Host, node: int, records: Path) -> subprocess.Popen:
    """One rank on a host of its own."""
    environment = {
        **{name: value for name, value in os.environ.items() if "RANKBOOK" not in name},
        **{"RANK": str(node), "WORLD_SIZE": "2", "GROUP_RANK": str(node), "LOCAL_RANK": "0"},
        **{"MASTER_ADDR": first.address, "MASTER_PORT": "29400", "OMP_NUM_THREADS": "1"},
        "GLOO_SOCKET_IFNAME": host.interface,
        "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
    }
    program = [sys.executable, "-m", "tests.autopsy.hangs", "cut", str(records)]
    return subprocess.Popen(host.command(*program), env=environment, cwd=ROOT)


def found(records: Path) -> tuple[Job | None, list[Finding]]:
    """What the ranks have recorded so far, and the findings."""
    try:
        return (job := read(records)), judge(job)
    except ValueError:  # no record so far
        return None, []


def both_run(job: Job | None) -> bool:
    return bool(job) and len(job.ranks) == 2 and all(len(r.entries) > 3 for r in job.ranks.values())


def of_network(records: Path) -> list[Finding]:
    """The findings, as soon as one is of the network."""
    _, findings = found(records)
    return findings if any(each.kind == "network" for each in findings) else []


def test_a_node_that_is_cut_off(tmp_path):
    with two_hosts() as hosts:
        ranks = [start(host, hosts[0], node, tmp_path) for node, host in enumerate(hosts)]
        try:
            until(lambda: both_run(found(tmp_path)[0]))
            hosts[1].cut()
            [finding] = until(lambda: of_network(tmp_path), lambda: found(tmp_path))
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    assert "all_reduce(float32 [4]), call " in finding.text
    assert "Look at the network between the nodes 0 (" in finding.text
    assert all("in cut: dist.all_reduce(" in line for line in finding.lines.values())
    assert sorted(finding.lines) == [0, 1]
