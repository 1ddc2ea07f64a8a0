"""A clock that is set moves the time of day of one node's processes, and no time-out."""

import os
import subprocess
import sys

from rankbook.testbed.faults.clocks import NODE, Clocks

LOOK = """
import pickle, time
from datetime import datetime, timedelta, timezone
now, began = datetime.now(timezone.utc), time.monotonic()
assert pickle.loads(pickle.dumps(now)) == now and isinstance(now, datetime)
assert abs(now.timestamp() - time.time()) < 1000
assert abs((now - timedelta(seconds=5) - now).total_seconds()) == 5
print(time.time())
"""


def looks(clocks: Clocks, node: str) -> float:
    """The time of day that a process of `node` sees."""
    environment = clocks.environment(os.environ | {NODE: node})
    return float(subprocess.check_output([sys.executable, "-c", LOOK], env=environment))


def test_one_node_sees_another_time_and_the_others_do_not(tmp_path):
    clocks = Clocks(tmp_path / "clocks")
    right = looks(clocks, "a")
    clocks.set("b", 5000.0)
    assert 4000 < looks(clocks, "b") - right < 6000 and abs(looks(clocks, "a") - right) < 1000
    clocks.reset()
    assert abs(looks(clocks, "b") - right) < 1000


def test_what_was_on_the_path_stays_there(tmp_path):
    clocks = Clocks(tmp_path / "clocks")
    path = clocks.environment({"PYTHONPATH": "/one:/two"})["PYTHONPATH"].split(os.pathsep)
    assert path == [str(clocks.folder), "/one", "/two"]
