"""The benchmark of the rendezvous: its command line, its file, and all of it with two agents."""

import json
import subprocess
import sys

import pytest

from benchmarks import rendezvous
from tests.waiting import SOON

RUN = """
import sys
from pathlib import Path
from benchmarks import record, rendezvous
record.RESULTS = Path(sys.argv[1])
rendezvous.one_by_one.__defaults__ = (16,)
rendezvous.main(["--agents", "2", "--repeats", "3"])
"""


@pytest.mark.parametrize(
    ("line", "sentence"),
    [("--repeats 1", "use 3 or more"), ("--agents 1 8", "nobody meets alone; use 2 or more")],
)
def test_wrong_options_are_one_sentence(line, sentence, capsys):
    with pytest.raises(SystemExit) as end:
        rendezvous.main(line.split())
    assert end.value.code == 2 and sentence in capsys.readouterr().err


def test_the_line_is_not_bent_by_outliers():
    values = [5 + 0.5 * n for n in range(1, 101)]
    values[7] = values[80] = 1000
    assert rendezvous.line(values) == pytest.approx([5, 0.5])


@pytest.mark.slow
def test_a_small_run(tmp_path):
    """In a process of its own: it forks agents, which pytest's threads would disturb."""
    words = [sys.executable, "-c", RUN, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=SOON)
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.glob("rendezvous-cpu-*.json")
    result = json.loads(file.read_text())
    (row,) = result["rows"]
    assert row["agents"] == 2 and row["writes"] >= 2 and row["median"] > 1
    costs = result["costs"]
    assert costs["first"] > 0 and costs["client"][0] > 0 and costs["store"][0] > 0
    assert 80 < costs["nbytes"][1] < 200
