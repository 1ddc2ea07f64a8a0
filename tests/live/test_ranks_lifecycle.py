"""Starting, stopping and leaving: nothing clashes, nothing stays behind."""

import re
import socket
from pathlib import Path

import nbclient
import nbformat
import psutil
import pytest

from tests.live.kernel import Notebook
from tests.waiting import SOON, until

READY = "%load_ext rankbook\n%ranks start -n {n}"


# Notes which processes ipykernel finds when the kernel leaves.
NOTE_CHILDREN = """import pathlib
kernel = get_ipython().kernel
wait_for_children = kernel._progressively_terminate_all_children
def note():
    pathlib.Path({path!r}).write_text(str(kernel._process_children()))
    return wait_for_children()
kernel._progressively_terminate_all_children = note"""


SESSION = "import subprocess\nsubprocess.Popen(['sleep', '3600'], start_new_session=True)"


def test_stop_ends_what_a_cell_left_in_a_session_of_its_own(notebook, tmp_path):
    """And runs what cells have registered for the end."""
    assert not notebook.run("%ranks start -n 2").error
    leave = f"open({str(tmp_path)!r} + f'/{{rank}}', 'w').close()"
    notebook.run(f"%%ranks\nimport atexit\natexit.register(lambda: {leave})")
    assert not notebook.run(f"%%ranks\n{SESSION}").error
    assert [p.name() for p in notebook.processes()].count("sleep") == 2
    assert not notebook.run("%ranks stop").error
    assert "sleep" not in [p.name() for p in notebook.processes()]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("doing", ["nothing", "a hang"])
def test_the_notebooks_kernel_is_killed(notebook, n, doing, tmp_path):
    """No process stays; the files that do are removed when another notebook starts ranks.

    Nor does a process in a session of its own. The temporary directory's path is too long for
    sockets.
    """
    elsewhere = tmp_path / ("long" * 30)
    elsewhere.mkdir()
    with Notebook(env={"TMPDIR": str(elsewhere)}) as nb:
        assert not nb.run(READY.format(n=n)).error
        left = directory(nb)
        said = nb.run("%%ranks\nimport tempfile\nprint(tempfile.gettempdir())").text
        # one line, or some where a rank was late
        assert {line.partition("] ")[2] for line in said.splitlines()} == {str(elsewhere)}
        assert not nb.run(f"%%ranks\n{SESSION}").error
        if doing == "a hang":
            nb.begin("%%ranks\nprint('hangs')\nif rank:\n    dist.barrier()\nwhile True: pass")
            nb.until("hangs")
        assert len(nb.processes()) >= n
        nb.kill()
        assert nb.wait_gone() == []
    # `left` stays until another notebook starts ranks: any on this machine, so maybe it has gone
    assert not list(elsewhere.glob("pymp-*"))
    assert not notebook.run("%ranks start -n 2\n%ranks stop").error
    assert not left.exists()


def directory(nb: Notebook) -> Path:
    """The private directory of its ranks."""
    nb.run("from rankbook.magics.ranks import RanksMagics")
    return Path(nb.run("print(RanksMagics.session._directory)").text.strip())


def test_the_notebooks_kernel_shuts_down(tmp_path):
    """As with the restart button: Jupyter waits 5 s, and a reader should not have to.

    ipykernel waits for the kernel's child processes, for longer than that: there must be none.
    """
    with Notebook() as nb:
        assert not nb.run(READY.format(n=2)).error
        left = directory(nb)
        assert left.is_dir()
        children = tmp_path / "children"
        assert not nb.run(NOTE_CHILDREN.format(path=str(children))).error
        process, nb._manager.shutdown_wait_time = nb._manager.provisioner.process, SOON
        nb._manager.shutdown_kernel()
        assert process.returncode == 0  # it left by itself
        assert children.read_text() == "[]"
        assert nb.wait_gone() == []
        assert not left.exists()


def test_ranks_that_do_not_greet_are_asked(tmp_path):
    """A rank can overlook a subscription; the start once waited for its greeting for ever."""
    (tmp_path / "no_greeting.py").write_text(
        "from ipykernel.iostream import IOPubThread\n"
        "IOPubThread._send_welcome_message = lambda *_: None\n"
    )
    with Notebook(env={"PYTHONPATH": str(tmp_path)}) as nb:
        nb.run("from rankbook.live.ranks import rank_forkserver as server")
        nb.run("server.PRELOAD += ['no_greeting']")
        assert not nb.run(READY.format(n=2)).error
        said = nb.run("%%ranks\nprint('from the first cell on')")
        assert said.text == "[0-1] from the first cell on\n"


def test_two_notebooks_at_once():
    with Notebook() as one, Notebook() as two:
        for nb in (one, two):
            nb.begin(READY.format(n=2))
        for nb in (one, two):
            assert not nb.finish().error
        for nb in (one, two):
            nb.begin("%%ranks\nfor _ in range(50): dist.all_reduce(torch.ones(1))\nprint('ok')")
        assert [nb.finish().text for nb in (one, two)] == ["[0-1] ok\n"] * 2


def test_eight_starts_and_stops_leave_nothing(notebook):
    """What one start in eight left behind would be in the count."""
    import_all = "import os, glob, tempfile, psutil\nme = psutil.Process()"
    count = (
        "(me.num_fds(), len(me.children(recursive=True)), me.num_threads(), "
        "len(glob.glob(f'{tempfile.gettempdir()}/rankbook-ranks-{me.pid}-*')))"
    )

    def counts() -> list[int]:
        return [int(number) for number in re.findall(r"\d+", notebook.run(count).text)]

    notebook.run(import_all)
    assert not notebook.run("%ranks start -n 2\n%ranks stop").error
    # the notebook's own history, say, opens a file for a moment: what is there at all looks, stays
    before = [min(looks) for looks in zip(*(counts() for _ in range(20)), strict=True)]
    loop = "for _ in range(8):\n    get_ipython().run_line_magic('ranks', 'start -n 2')\n"
    result = notebook.run(loop + "    get_ipython().run_line_magic('ranks', 'stop')")
    assert not result.error and result.text.count("2 ranks after") == 8
    until(lambda: all(map(int.__le__, counts(), before)), lambda: (before, counts()))


def test_nothing_listens_beyond_loopback_and_sockets_are_private(notebook):
    assert not notebook.run("%ranks start -n 2").error
    notebook.run("%%ranks\ndist.all_reduce(torch.ones(1))")
    addresses = [
        connection.laddr.ip
        for process in notebook.processes()
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN or connection.type == socket.SOCK_DGRAM
    ]
    assert addresses and set(addresses) <= {"127.0.0.1", "::1"}
    code = "from rankbook.magics.ranks import RanksMagics as m\nimport os\n"
    code += "print(oct(os.stat(m.session._directory).st_mode & 0o777))"
    assert notebook.run(code).text == "0o700\n"
    assert not notebook.run("%ranks stop").error


def test_a_failing_rank_fails_the_notebook():
    cells = [READY.format(n=2), "%%ranks\nassert rank != 1, 'here'", "print('not reached')"]
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="here"):
        nbclient.NotebookClient(nb, timeout=SOON, kernel_name="python3").execute()


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("%%ranks\n1", "no ranks are running; start some first: %ranks start -n 2"),
        ("%ranks get x", "no ranks are running; start some first: %ranks start -n 2"),
        ("%ranks start -n 0", "-n 0 makes no process group; give 1 rank or more"),
        ("%ranks start", "%ranks start: the following arguments are required: -n"),
        ("%ranks start -n two", "%ranks start: argument -n: invalid int value: 'two'"),
        ("%ranks start -n 2 --timeout 0", "--timeout 0 is no time; give seconds, such as 60"),
        ("%ranks start -n 2 --timeout nan", "--timeout nan is no time; give seconds, such as 60"),
        ("%ranks start -n 2 --timeout inf", "--timeout inf is no time; give seconds, such as 60"),
        ("%ranks get 'abc", "%ranks get 'abc: No closing quotation"),
        ("%ranks start -n 2 --backend mpi", "%ranks start: argument --backend: invalid choice"),
        ("%ranks sing", "%ranks sing is unknown; use start, get, put, status, restart or stop"),
        ("%ranks", "%ranks needs a command; use start, get, put, status, restart or stop"),
    ],
)
def test_wrong_use_without_ranks(notebook, code, sentence):
    assert notebook.run(code).error.startswith(f"UsageError: {sentence}")


def test_stop_without_ranks_is_fine(notebook):
    assert notebook.run("%ranks stop").error == ""
    assert notebook.run("%ranks status").text == "No ranks are running.\n"


def test_nccl_without_gpus_is_refused(notebook):
    import torch

    if torch.cuda.device_count() >= 2:
        pytest.skip("this machine has GPUs enough for nccl")
    result = notebook.run("%ranks start -n 2 --backend nccl")
    assert "nccl needs one GPU per rank: 2 ranks" in result.error
    assert notebook.run("%ranks status").text == "No ranks are running.\n"
