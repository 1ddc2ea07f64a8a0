"""What a process leaves behind, however it ends; none of these programs loads torch."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.autopsy import RankRecord, read
from tests.waiting import SOON, until

ROOT = Path(__file__).resolve().parents[2]


def start(records: Path, *words: str, **more: str) -> subprocess.Popen:
    """Python with `words`, as rank 0 of 1, which records into `records`."""
    known = {name: value for name, value in os.environ.items() if name != "PYTHONFAULTHANDLER"}
    rank = {"RANK": "0", "WORLD_SIZE": "1", "RANKBOOK_AUTOPSY": str(records)}
    return subprocess.Popen(
        [sys.executable, *words],
        env={**known, **rank, "PYTHONPATH": str(ROOT / "src"), **more},
        stderr=subprocess.PIPE,
        text=True,
    )


def left(records: Path, *words: str) -> RankRecord:
    """What is known of a program once it has ended."""
    start(records, *words).communicate(timeout=SOON)
    return read(records).ranks[0]


def test_a_program_that_ends_well(tmp_path):
    rank = left(tmp_path, "-c", "import rankbook")
    assert (rank.ended, rank.error, rank.world_size) == ("ended", "", 1)


def test_a_program_that_raises(tmp_path):
    program = tmp_path / "raises.py"
    program.write_text("import rankbook\ndef load():\n    raise ValueError('no part')\nload()\n")
    rank = left(tmp_path / "records", str(program))
    assert (rank.ended, rank.error) == ("raised", "ValueError: no part")
    assert str(rank.lines[0]) == "raises.py:3 in load: raise ValueError('no part')"


def test_a_program_that_knows_nothing_of_it(tmp_path):
    program = tmp_path / "train.py"
    program.write_text("import sys\nraise KeyError(sys.argv[1])\n")
    rank = left(tmp_path / "records", "-m", "rankbook.autopsy.run", str(program), "lr")
    assert (rank.ended, rank.error) == ("raised", "KeyError: 'lr'")
    assert str(rank.lines[0]) == "train.py:2: raise KeyError(sys.argv[1])"


WAITS = "import rankbook, threading\nprint('x', flush=True)\nthreading.Event().wait()"


@pytest.mark.parametrize(
    ("signum", "ended", "error"),
    [(signal.SIGTERM, "told", ""), (signal.SIGSEGV, "crashed", "Segmentation fault"),
     (signal.SIGKILL, "died", "")],
)  # fmt: skip
def test_a_program_that_a_signal_ends(tmp_path, signum, ended, error):
    program = start(tmp_path, "-c", WAITS)
    until(lambda: list(tmp_path.glob("*.json")), goes_on=lambda: program.poll() is None)
    program.send_signal(signum)
    program.communicate(timeout=SOON)
    assert program.returncode == -signum
    rank = read(tmp_path).ranks[0]
    assert (rank.ended, rank.error) == (ended, error)


def test_what_is_no_rank_leaves_nothing(tmp_path):
    program = start(tmp_path / "records", "-c", "import rankbook", RANK="")
    assert program.communicate(timeout=SOON)[1] == ""
    assert not (tmp_path / "records").exists()


def test_a_folder_that_cannot_be_made_is_said_and_the_program_runs(tmp_path):
    (tmp_path / "file").write_text("")
    program = start(tmp_path / "file" / "records", "-c", "import rankbook")
    said = program.communicate(timeout=SOON)[1]
    assert program.returncode == 0
    assert said == f"rankbook: {tmp_path}/file/records: Not a directory; nothing is recorded\n"
