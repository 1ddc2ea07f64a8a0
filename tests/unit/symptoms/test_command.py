"""``rankbook symptom`` in a terminal."""

import shlex
import subprocess
import sys


def test_a_reader_who_has_enough_is_no_error():
    """``rankbook symptom | head -1``."""
    line = f"{shlex.quote(sys.executable)} -m rankbook symptom | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
