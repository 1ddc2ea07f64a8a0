"""How fast and how far nodes are from each other, measured on the loopback, in one sentence."""

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from rankbook.comm import Link, ring
from rankbook.core.ports import ReservedPort
from rankbook.doctor import link_speed as ways
from rankbook.doctor import links
from rankbook.doctor.finding import Options
from rankbook.doctor.link_speed import LinkSpeed, Listening, measure, rate
from rankbook.doctor.links import Asked, bits, slowest
from rankbook.doctor.meeting import Board
from rankbook.predict.cost_model import steps_between
from tests.waiting import SOON

FAST, SLOW, FAR = LinkSpeed(1e-4, 1.25e9), LinkSpeed(0.02, 6.25e6), LinkSpeed(0.1, 1.25e9)


@pytest.fixture
def short(monkeypatch):
    """Sends for a moment: what a way is worth is not what is tested."""
    monkeypatch.setattr(ways, "WINDOW", 0.1)


def test_the_slowest_link_is_named_and_what_to_do():
    finding = slowest({"n1 to n2": FAST, "n2 to n1": SLOW}, Asked(2, 124e6, 1.0))
    assert finding.level == "warning"
    assert finding.says == (
        "The slowest link is from n2 to n1: 50 Mbit/s, 20 ms away; an all_reduce of 124 million "
        "gradients over 2 nodes takes 79.4 s, longer than a step of 1 s (--parameters, "
        "--step-seconds say which model): with train_lm --sync diloco:1000, meetings take at most "
        "10% of the time."
    )
    assert finding.value["slowest"] == "n2 to n1"
    takes = ring(2, 4 * 124e6, Link("", 0.02, 1 / 6.25e6))
    assert finding.value["all_reduce_seconds"] == pytest.approx(takes)
    assert finding.value["links"]["n1 to n2"] == {"seconds": 1e-4, "bytes_per_second": 1.25e9}


def test_links_that_are_fast_enough_are_no_news():
    finding = slowest({"n2": FAST}, Asked(2, 124e6, 1.0))
    assert finding.level == "ok" and "--sync" not in finding.says
    assert finding.says.startswith("The slowest link is to n2: 10 Gbit/s, 0.1 ms away; ")


def test_the_model_decides_which_link_is_the_slowest():
    """Many small messages wait for what is far, a large one for what is narrow."""
    ways = {"far": FAR, "narrow": SLOW}
    assert slowest(ways, Asked(8, 1e3, 1.0)).value["slowest"] == "far"
    assert slowest(ways, Asked(8, 1e9, 1.0)).value["slowest"] == "narrow"


@pytest.mark.parametrize(
    ("meeting", "step", "every"),
    [(0.01, 1.0, 1), (1.0, 1.0, 10), (5.0, 1.0, 50), (79.4, 1.0, 1000), (2.0, 0.1, 200)],
)
def test_how_often_replicas_meet(meeting, step, every):
    assert steps_between(meeting, step) == every
    assert meeting / (meeting + every * step) <= 0.1 + 1e-9


def test_rates_in_the_unit_of_networks():
    assert [bits(n) for n in (100, 1e4, 6.25e6, 1.25e9)] == [
        "800 bit/s", "80 kbit/s", "50 Mbit/s", "10 Gbit/s",
    ]  # fmt: skip


def test_the_second_half_of_the_time_counts():
    slow_start = [(0.0, 0), (1.0, 10), (1.0, 20), (1.5, 520), (2.0, 1020)]
    assert rate(slow_start) == 1010 / 1.0
    assert rate([(0.0, 5), (2.0, 105)]) == 50.0


def test_a_way_is_measured_by_both_ends(monkeypatch, short):
    """The near one measures how far it is, and the far one how fast what it gets comes."""
    received = []
    monkeypatch.setattr(ways, "rate", lambda marks: received.append(marks) or 1.25e9)
    with Listening("127.0.0.1", 0) as listening:
        assert listening.place[1] in ports_listened_at()
        way = measure(*listening.place, time.monotonic() + SOON)
        listening.serve_until(1, time.monotonic() + SOON)
    assert way.seconds > 0 and way.bytes_per_second == 1.25e9
    (marks,) = received
    (begin, _), (end, _) = marks[0], marks[-1]
    assert end - begin >= ways.WINDOW and rate(marks) > 0
    assert listening.place[1] not in ports_listened_at()


def ports_listened_at() -> set[int]:
    """Those of this process."""
    found = psutil.Process().net_connections("tcp")
    return {each.laddr.port for each in found if each.status == psutil.CONN_LISTEN}


def test_who_only_looks_whether_a_port_is_open_disturbs_nobody(short):
    with Listening("127.0.0.1", 0) as listening:
        socket.create_connection(tuple(listening.place)).close()
        with socket.create_connection(tuple(listening.place)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert measure(*listening.place, time.monotonic() + SOON)


def test_nobody_there_is_no_way():
    with ReservedPort() as port:
        assert measure("127.0.0.1", port.number, time.monotonic() + 0.3) is None


def test_alone_nothing_is_measured(monkeypatch):
    monkeypatch.delenv("SLURM_STEP_NUM_NODES", raising=False)
    (finding,) = links.findings(Options())
    assert finding.level == "skipped" and "--peer" in finding.says
    (finding,) = links.findings(Options(peers=["no.such.host.invalid"], port=0, seconds=1.5))
    assert finding.level == "skipped" and "nobody was there" in finding.says


def test_a_port_that_is_taken_is_said(monkeypatch):
    monkeypatch.delenv("SLURM_STEP_NUM_NODES", raising=False)
    with socket.create_server(("", 0)) as server:
        options = Options(peers=["127.0.0.1"], port=server.getsockname()[1], seconds=1.5)
        (finding,) = links.findings(options)
    assert finding.level == "skipped" and "Address already in use" in finding.says


def test_notes_of_all_nodes_and_nothing_is_left(tmp_path):
    folder, end, told = tmp_path / "board", time.monotonic() + SOON, {}

    def node(name: str) -> None:
        with Board(folder, name, 3, end) as board:
            board.share("place", [name, 1])
            told[name] = board.share("way", name.upper())

    threads = [threading.Thread(target=node, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (
        all(found == {"a": "A", "b": "B", "c": "C"} for found in told.values()) and len(told) == 3
    )
    assert not list(tmp_path.iterdir())


def test_who_waits_in_vain_leaves_nothing_either(tmp_path):
    with Board(tmp_path / "board", "a", 2, time.monotonic() + 0.2) as board:
        assert board.share("place", 1) == {"a": 1}
    assert not list(tmp_path.iterdir())


def test_nodes_may_leave_a_board_at_the_same_moment(tmp_path):
    """The first that sees all of them leave takes the folder away, while the others look."""
    together = threading.Barrier(4, timeout=SOON)

    def node(name: str) -> str:
        for _ in range(100):
            with Board(tmp_path / "board", name, 4, time.monotonic() + SOON):
                together.wait()
            together.wait()
        return name

    with ThreadPoolExecutor(4) as nodes:
        assert list(nodes.map(node, "abcd")) == list("abcd")
    assert not list(tmp_path.iterdir())


def test_three_nodes_of_a_step_measure_round_a_ring(tmp_path, monkeypatch, short):
    """In one process: the ring's functions, with what Slurm would say of each node."""
    monkeypatch.setattr(links, "address", lambda options: "127.0.0.1")
    environment = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}
    found = {}

    def node(name: str) -> None:
        options = Options(checkpoints=tmp_path)
        found[name] = links.round_a_ring(
            options, 3, time.monotonic() + SOON, environment | {"SLURMD_NODENAME": name}
        )

    threads = [threading.Thread(target=node, args=(f"n{i}",)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["n0", "n1", "n2"]
    assert all(sorted(ways) == ["n0 to n1", "n1 to n2", "n2 to n0"] for ways in found.values())
    assert not list(tmp_path.iterdir())
