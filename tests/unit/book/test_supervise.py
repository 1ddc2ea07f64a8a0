"""The supervisor waits for its command, and for orphans that end before it."""

import subprocess
import sys
from pathlib import Path

SUPERVISE = Path(__file__).parents[3] / "book" / "supervise.py"
# `sh` ends at once and leaves a process behind, which the supervisor adopts and which ends as well
ORPHAN = """
import subprocess, sys, time
import psutil
said = subprocess.check_output(["sh", "-c", "sleep 0.1 >/dev/null & echo $!"])
end = time.monotonic() + 900
while psutil.pid_exists(int(said)) and time.monotonic() < end:
    time.sleep(0.05)
sys.exit(3 if not psutil.pid_exists(int(said)) else 1)
"""


def test_an_orphan_that_has_ended_is_no_zombie_and_the_exit_code_is_the_commands():
    command = [sys.executable, str(SUPERVISE), sys.executable, "-c", ORPHAN]
    assert subprocess.run(command, check=False).returncode == 3
