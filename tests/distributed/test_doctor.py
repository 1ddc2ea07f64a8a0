"""``rankbook doctor`` with real ranks, and on a machine on which everything is wrong."""

import json
import shlex
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from rankbook.doctor.round_trip import our_rank, round_trip
from tests.waiting import SOON, until

pytestmark = pytest.mark.long

DOCTOR = [sys.executable, "-m", "rankbook", "doctor", "--json", "--seconds", f"{SOON:.0f}"]


def left_over() -> list[str]:
    return [path.name for path in Path(tempfile.gettempdir()).glob("rankbook-doctor-*")]


@pytest.fixture(autouse=True)
def nothing_left(tmp_path, monkeypatch):
    """No rank and no file stays, whatever happened."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = set(psutil.Process().children(recursive=True))  # of tests before: a fork server, say
    yield
    assert not set(psutil.Process().children(recursive=True)) - before
    assert not left_over()


def test_a_machine_as_it_is(tmp_path):
    told = subprocess.run(DOCTOR, capture_output=True, text=True, cwd=tmp_path, timeout=SOON)
    document = json.loads(told.stdout)
    found = {(f["check"], f["name"]): f for f in document["findings"]}
    assert told.returncode == int(document["counts"]["problem"] > 0)
    gloo = found["round_trip", "gloo"]
    assert gloo["level"] in ("ok", "warning") and "2 local ranks" in gloo["says"]  # fast or slow
    value = gloo["value"]
    assert value["algorithm_bandwidth"] == value["bytes"] / value["seconds"] > 0
    assert found["disk", "checkpoints"]["level"] == "ok"
    assert not list(tmp_path.iterdir())


STAGE = """
set -e
hostname nowhere; ip link set lo up
printf '127.0.0.1 localhost\n127.0.1.1 nowhere\n' > {0}/hosts; mount --bind {0}/hosts /etc/hosts
mount -t tmpfs -o size=1m none /dev/shm
mkdir {0}/full; mount -t tmpfs -o size=1m none {0}/full
exec {1} --checkpoints {0}/full --data {0}/none --port 29499 --interface eth9 --peer n2
"""


def test_a_machine_on_which_everything_is_wrong(tmp_path):
    """In namespaces of its own: tiny shared memory, a full disk, a name that is the loopback."""
    isolated = ["unshare", "--mount", "--net", "--uts"]
    try:
        subprocess.run(
            [*isolated, "true"], capture_output=True, text=True, check=True, timeout=SOON
        )
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"this process may make no namespaces: {getattr(error, 'stderr', error)}")
    script = STAGE.format(tmp_path, shlex.join(DOCTOR))
    told = subprocess.run(
        [*isolated, "bash", "-c", script], capture_output=True, text=True, timeout=SOON
    )
    assert told.returncode == 1, told.stderr
    found = {(f["check"], f["name"]): f for f in json.loads(told.stdout)["findings"]}
    for check, name, word in (
        ("memory", "shared memory", "--shm-size=1g"),
        ("disk", "checkpoints", "No space left on device"),
        ("disk", "space", "free some space"),
        ("data", "data", f"names {tmp_path}/none, which is no folder"),
        ("network", "named interface", "no interface eth9: here are lo"),
        ("network", "host name", "nowhere (127.0.1.1)"),
        ("network", "peer n2", "has no address here"),
        ("round_trip", "gloo", "Unable to find address for: eth9"),
    ):
        assert found[check, name]["level"] == "problem" and word in found[check, name]["says"]


def test_a_rank_that_cannot_start():
    def command(backend, rank, *rest):
        if rank == 1:
            return ["sh", "-c", "echo no such device >&2; exit 3"]
        return our_rank(backend, rank, *rest)

    # nobody waits for it until the deadline: this test would be ended before
    finding = round_trip("gloo", 2, 10 * SOON, {}, command)
    assert finding.level == "problem"
    assert "rank 1 of 2 ended before it had loaded torch with status 3 (no such device)" in (
        finding.says
    )


def test_a_rank_that_hangs():
    """It is started, and never comes; the one that comes is not blamed."""

    def command(backend, rank, ranks, folder, seconds):
        if rank == 0:  # it would wait for longer than the doctor does
            return our_rank(backend, rank, ranks, folder, SOON)
        # the doctor's clock starts when all are started: here rank 0 has loaded torch before
        until(lambda: "started" in (folder / "0.out").read_text())
        return ["sleep", "9999"]

    finding = round_trip("gloo", 2, 2, {}, command)
    assert finding.level == "problem"
    assert "rank 1 of 2 had not even loaded torch after 2 s" in finding.says
    assert [rank["stage"] for rank in finding.value] == ["started", ""]


NEVER_DONE = f"""
from rankbook.doctor.round_trip import our_rank, round_trip

def of_four(backend, rank, ranks, *rest):
    return our_rank(backend, rank, 4, *rest)  # the fourth never comes

round_trip("gloo", 3, {SOON}, {{}}, of_four)
"""


def all_of(found: list, count: int) -> list:
    """What is found, once it is so many."""
    return found if len(found) == count else []


def test_a_doctor_that_is_killed_takes_its_ranks_along(tmp_path):
    """However far they have come: a rank whose parent is gone ends itself, or is ended."""
    doctor = psutil.Popen([sys.executable, "-c", NEVER_DONE])
    ranks = until(lambda: all_of(doctor.children(), 3), goes_on=doctor.is_running)
    doctor.send_signal(signal.SIGKILL)
    doctor.wait()
    _, alive = psutil.wait_procs(ranks, timeout=SOON)
    assert not alive
    for folder in left_over():  # killed, it could not tidy up
        subprocess.run(["rm", "-r", tmp_path / folder], check=True)
