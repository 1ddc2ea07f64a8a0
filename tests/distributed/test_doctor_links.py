"""Two doctors on two hosts with a slow cable: they find it, and say how often replicas can meet."""

import json
import subprocess
import sys

import pytest

from rankbook.testbed.hosts import Host, two_hosts, why_not_slow
from tests.waiting import SOON

RATE, DELAY = 4e6, 0.03  # bits per second, seconds: a free cable has some hundred times as many
REASON = why_not_slow(DELAY)
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)
CHECK = """
import sys
from rankbook.doctor import Options, as_json, as_text, examine
options = Options(peers=[sys.argv[1]], parameters=1e6, step_seconds=0.1, seconds=900)
print((as_json if sys.argv[2] == "json" else as_text)(examine(options, {"links": options.seconds})))
"""


def doctors(hosts: tuple[Host, Host], form: str) -> list[str]:
    """What the doctors of both say, who name each other."""
    peers = reversed(hosts)
    started = [
        subprocess.Popen(
            host.command(sys.executable, "-c", CHECK, peer.address, form),
            stdout=subprocess.PIPE,
            text=True,
        )
        for host, peer in zip(hosts, peers, strict=True)
    ]
    return [process.communicate(timeout=SOON)[0] for process in started]


def finding(document: str) -> dict:
    (found,) = json.loads(document)["findings"]
    return found


def test_the_slow_cable_is_found_with_its_rate_and_its_delay():
    with two_hosts() as hosts:
        for host in hosts:
            host.limit(RATE, DELAY)
        found = [finding(said) for said in doctors(hosts, "json")]
        for one, other in zip(found, reversed(hosts), strict=True):
            value = one["value"]
            assert value["slowest"] == other.address
            way = value["links"][other.address]
            assert way["seconds"] >= DELAY
            # who is late to read finds more than the cable brings meanwhile; not many times as much
            assert 0 < 8 * way["bytes_per_second"] < 10 * RATE
            assert one["level"] == "warning"
            assert f"train_lm --sync diloco:{value['every']}, meetings take" in one["says"]
            # there and back with half of the gradients each time
            takes = 2 * (way["seconds"] + 4e6 / 2 / way["bytes_per_second"])
            assert value["all_reduce_seconds"] == pytest.approx(takes)


def test_only_one_direction_is_slow_and_it_is_told_which():
    with two_hosts() as hosts:
        hosts[0].limit(RATE)
        from_first, from_second = (finding(said)["value"] for said in doctors(hosts, "json"))
        there = from_first["links"][hosts[1].address]["bytes_per_second"]
        back = from_second["links"][hosts[0].address]["bytes_per_second"]
        # how fast the free one is, the machine decides; that it is faster, the other's limit
        assert 8 * there < 3 * RATE and there < back


def test_in_words_within_eighty_columns():
    with two_hosts() as hosts:
        for host in hosts:
            host.limit(RATE, DELAY)
        for said in doctors(hosts, "text"):
            assert all(len(line) <= 80 for line in said.splitlines())
            assert said.splitlines()[2].startswith("warning  links        The slowest link is to")
            assert "million gradients over 2 nodes takes" in " ".join(said.split())
