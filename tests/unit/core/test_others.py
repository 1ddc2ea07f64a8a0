"""What other programs take of the machine, and what this notebook does itself."""

import subprocess
import sys

from rankbook.core import others as module
from rankbook.core.others import Others, others
from tests.waiting import until

BURN = "import time\nuntil = time.process_time() + 1000\nwhile time.process_time() < until: pass"


def test_the_share_is_what_is_neither_ours_nor_idle(monkeypatch):
    """Two cores for ten seconds; 15 core-seconds of work in all, 11 of them ours."""
    whole, own, clock = iter([100.0, 115.0]), iter([20.0, 31.0]), iter([0.0, 10.0])
    monkeypatch.setattr(module, "_whole", lambda: next(whole))
    monkeypatch.setattr(module, "_own", lambda: next(own))
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    with others() as other:
        pass
    assert other.share == 0.2 and not other.quiet
    assert str(other) == (
        "other programs took 20% of the cores meanwhile: too busy to judge by these times"
    )
    assert Others(0.1).quiet and str(Others(0.1)).endswith("10% of the cores meanwhile")


def test_what_we_start_is_ours():
    """A busy child counts as ours, alive and after its end."""
    before = module._own()
    child = subprocess.Popen([sys.executable, "-c", BURN])
    until(lambda: module._own() >= before + 0.3)
    child.kill()
    child.wait()
    assert module._own() >= before + 0.3


def test_nothing_is_known_without_the_systems_file(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "Path", lambda _: tmp_path / "none")
    with others() as other:
        pass
    assert other.share == 0.0
