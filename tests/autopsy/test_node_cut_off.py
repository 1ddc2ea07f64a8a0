"""The cable between two nodes is pulled: nobody is missing, and the autopsy says where to look."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankbook.autopsy import Finding, judge, read
from rankbook.testbed.hosts import Host, two_hosts, why_not

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 900  # seconds

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


def until(records: Path, happened) -> list[Finding]:
    """The findings, once `happened` of the job and them."""
    end, findings = time.monotonic() + DEADLINE, []
    while time.monotonic() < end:
        try:
            findings = judge(job := read(records))
            if happened(job, findings):
                return findings
        except ValueError:
            pass  # no record so far
        time.sleep(0.1)
    raise AssertionError(findings)


def test_a_node_that_is_cut_off(tmp_path):
    with two_hosts() as hosts:
        ranks = [start(host, hosts[0], node, tmp_path) for node, host in enumerate(hosts)]
        try:
            until(tmp_path, lambda job, _: len(job.ranks) == 2
                  and all(len(rank.entries) > 3 for rank in job.ranks.values()))  # fmt: skip
            hosts[1].cut()
            [finding] = until(tmp_path, lambda _, found: any(f.kind == "network" for f in found))
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    assert "all_reduce(float32 [4]), call " in finding.text
    assert "Look at the network between the nodes 0 (" in finding.text
    assert all("in cut: dist.all_reduce(" in line for line in finding.lines.values())
    assert sorted(finding.lines) == [0, 1]
