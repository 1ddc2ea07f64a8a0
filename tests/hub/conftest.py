"""Processes that see a hub of their own, or none."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reader import clean, real_data

SRC = Path(__file__).parents[2] / "src"
__all__ = ["clean", "real_data"]  # fixtures


@pytest.fixture
def fresh(tmp_path):
    """Return a function that runs code in a new Python and gives what it printed as JSON last.

    The hub's libraries read their settings when they are imported, so only a new process sees
    others. It has an empty hub cache of its own and, unless told otherwise, no working hub.
    """

    def run(code: str, **environment: str) -> tuple[list[str], object]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        env |= {
            "PYTHONPATH": str(SRC),
            "HF_HOME": str(tmp_path / "hf"),
            "HF_ENDPOINT": "http://127.0.0.1:9",  # the discard port: the connection is refused
            **environment,
        }
        done = subprocess.run(
            [sys.executable, "-c", f"import json\n{code}"],
            env=env,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == "", "loading data must be quiet"
        *lines, last = done.stdout.splitlines()
        return lines, json.loads(last)

    return run
