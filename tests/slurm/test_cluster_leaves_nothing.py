"""However a notebook ends, its cluster ends with it."""

from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.live.kernel import Notebook
from tests.waiting import SOON, until

pytestmark = pytest.mark.usefixtures("possible")
START = "%load_ext rankbook.magics.cluster\n%cluster start"
JOB = """%%cluster job
sbatch --nodes=2 --ntasks-per-node=1 --wrap 'srun sleep 600'"""


def interfaces() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def mounts() -> set[str]:
    return set(Path("/proc/mounts").read_text().splitlines())


def until_two_sleep(notebook: Notebook) -> None:
    """Wait until the job's two ``sleep`` are the only ones of the notebook and its cluster."""
    until(lambda: names(notebook).count("sleep") == 2, lambda: names(notebook))


def names(notebook: Notebook) -> list[str]:
    """Those of its processes."""
    found = []
    for process in notebook.processes():
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile
            found.append(process.name())
    return found


@pytest.fixture
def notebook():
    """A notebook with a cluster, on which a job runs; `folder` is where its state is."""
    before = mounts(), interfaces()
    with Notebook() as nb:
        started = nb.run(START)
        assert not started.error and started.text.startswith("Slurm ")
        began = nb.run(JOB)
        assert not began.error, began.text
        nb.folder = Path(nb.run("print(cluster.folder.parent)").text.strip())
        assert nb.folder.is_dir()
        until_two_sleep(nb)
        yield nb
        assert nb.wait_gone(SOON) == []
        assert mounts() - before[0] == set() == interfaces() - before[1]


def test_the_notebook_is_killed(notebook):
    notebook.kill()
    assert notebook.wait_gone(SOON) == []
    # its folder stays, until the next cluster of anyone starts
    with Notebook() as other:
        assert not other.run(START).error
        assert not notebook.folder.exists()


def test_the_notebook_is_shut_down(notebook):
    notebook._manager.shutdown_wait_time = SOON  # then it would be killed, and leave its folder
    notebook._manager.shutdown_kernel()
    assert notebook.wait_gone(SOON) == []
    assert not notebook.folder.exists()


def test_the_cluster_is_stopped(notebook):
    assert not notebook.run("%cluster stop").error
    assert notebook.wait_gone(SOON) == []
    assert not notebook.folder.exists()


def test_a_cell_is_interrupted_and_the_cluster_goes_on(notebook):
    notebook.begin("%%cluster long\necho begun; sleep 600")
    notebook.until("begun")
    notebook.interrupt()
    assert "KeyboardInterrupt" in notebook.finish().error
    assert "R" in notebook.run("%%cluster queue\nsqueue -h -o %t").text
    until_two_sleep(notebook)  # the job's; the cell's is gone
    notebook.kill()
