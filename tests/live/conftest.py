"""A notebook that the tests of live ranks share, and ranks for a module: starts cost seconds."""

import os
from pathlib import Path

import pytest

from tests.live.kernel import Notebook


@pytest.fixture(scope="package")
def notebook():
    """A real kernel with the magics loaded; no ranks, or those of `live`."""
    with Notebook() as nb:
        assert not nb.run("%load_ext rankbook").error
        yield nb


# What ends, and with which words, is tested, not how fast: so nothing ends by itself. Ranks that
# nobody gets out of a collective wait for an hour, and an interrupt that they ignore kills no rank.
# Equal lines of ranks meet, however busy the machine is. And silence is looked into early.
SLOW = """from rankbook.live.ranks import interrupt, lookout
from rankbook.live.screen import output
interrupt.KILL = interrupt.IMPATIENT = 3600.0
lookout.HINT, output.WINDOW = 1.0, 60.0"""


def pytest_generate_tests(metafunc):
    """Live ranks are four, where not the module's `RANKS` says how many, in turn."""
    if "live" in metafunc.fixturenames:
        ranks = getattr(metafunc.module, "RANKS", [4])
        names = [f"{number} ranks" for number in ranks]
        metafunc.parametrize("live", ranks, indirect=True, ids=names, scope="module")


@pytest.fixture(scope="module")
def live(request, notebook):
    """The notebook with as many live ranks as `world_size` tells."""
    notebook.world_size = request.param
    assert not notebook.run(SLOW).error
    assert not notebook.run(f"%ranks start -n {request.param} --timeout 3600").error
    yield notebook
    assert not notebook.run("%ranks stop").error


class Gate:
    """Where processes wait until the test lets them go on: ``open(path)`` hangs until then."""

    def __init__(self, path: Path):
        os.mkfifo(path)
        self.path, self._opened = str(path), []

    @property
    def wait(self) -> str:
        """An expression for the code of a cell."""
        return f"open({self.path!r}).close()"

    def open(self) -> None:
        """Let all go on, those too that come later."""
        self._opened.append(os.open(self.path, os.O_RDWR))

    def close(self) -> None:
        """Forget it."""
        for descriptor in self._opened:
            os.close(descriptor)


@pytest.fixture
def gate(tmp_path):
    """A closed gate for code that runs in other processes."""
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.close()
