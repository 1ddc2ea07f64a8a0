"""What others did to live ranks: the review's cases, on two ranks that all of them share."""

import re

import pytest

from rankbook.live.failure.report import INTERRUPTED
from tests.live.conftest import SLOW
from tests.live.report import blocked, fails, raised, still_waits, stopped
from tests.live.standing import Standing

ALIVE = "%%ranks\nt = torch.ones(1); dist.all_reduce(t); print(kept, int(t))"


@pytest.fixture(scope="module")
def two(notebook):
    """The notebook with 2 live ranks."""
    assert not notebook.run(SLOW).error
    assert not notebook.run("%ranks start -n 2 --timeout 3600").error
    assert not notebook.run("%%ranks\nimport asyncio, os, sys\nkept = 'kept'").error
    yield notebook
    assert not notebook.run("%ranks stop").error


@pytest.fixture(scope="module")
def standing(two, tmp_path_factory):
    standing = Standing(two, tmp_path_factory.mktemp("standing"))
    yield standing
    standing.forget()


@pytest.fixture(autouse=True)
def _variables_and_group_survive(two):
    """After every test: a variable set before is there, and collectives work."""
    yield
    result = two.run(ALIVE)
    assert (result.error, result.text) == ("", "[0-1] kept 2\n")


@pytest.mark.parametrize(
    "code",
    [
        "await asyncio.sleep(0)\nprint('here')",
        "async def one():\n    yield 'here'\nasync for word in one():\n    print(word)",
    ],
)
def test_a_cell_may_wait(two, code):
    assert two.run(f"%%ranks\n{code}").text == "[0-1] here\n"


def test_an_await_that_fails_on_one_rank(two):
    code = "%%ranks\nasync def f():\n    await asyncio.sleep(0)\n    if rank == 1:\n"
    code += "        raise ValueError('boom')\nawait f()\ndist.barrier()"
    error = two.run(code).error
    assert error.startswith(fails(raised(1, "ValueError: boom")))
    assert blocked(0, "barrier()", 7) in error


LOOP = "async def f():\n    while True:\n        pass\n"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("await asyncio.sleep(3600)", [2]),
        ("await asyncio.sleep(0)\nwhile True:\n    pass", [3, 4]),
        (LOOP + "await asyncio.gather(f(), asyncio.sleep(3600))", [5]),
    ],
)
def test_an_await_is_interrupted(two, standing, code, lines):
    """While it waits, while it computes, and in a task of its own: the rank lives on."""
    two.begin(f"%%ranks\n{code}")
    place = rf"cell line ({'|'.join(map(str, lines))})\b"
    standing.until(dict.fromkeys(range(2), place))
    two.interrupt()
    error = two.finish().error
    assert error.startswith(fails(INTERRUPTED))
    assert {stopped(1, "", line) for line in lines} & set(error.splitlines()), error


@pytest.mark.parametrize(
    ("code", "said"), [("exit()", ""), ("quit(3)", "3 "), ("sys.exit(0)", "0 ")]
)
def test_exit_ends_the_cell_and_says_so(two, code, said):
    error = two.run(f"%%ranks\nif rank == 1:\n    {code}\ndist.barrier()").error
    advice = f"{said}(it ends the cell, not the rank; %ranks stop ends the ranks)"
    assert error.startswith(fails(raised(1, f"SystemExit: {advice}")))
    assert f"----> 3     {code}" in error and "hidden" not in error
    assert blocked(0, "barrier()", 4) in error


def test_a_rank_looks_like_a_program_to_libraries(two):
    code = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr')\n"
    code += "print(parser.parse_args(), hasattr(sys, 'ps1'))"
    assert two.run(f"%%ranks\n{code}").text == "[0-1] Namespace(lr=None) False\n"


def test_a_tight_loop_of_prints_is_interrupted(two):
    """Faster than it can be shown: the stop button has its turn, and is believed."""
    # a line waits for the others' as it does for readers: here, thousands do
    two.run("window, output.WINDOW = output.WINDOW, 0.15")
    two.begin("%%ranks\nprint('go')\nwhile True: print('z' * 50)")
    two.until("go")
    two.interrupt()
    result = two.finish()
    two.run("output.WINDOW = window")
    assert result.error.startswith(fails(f"{INTERRUPTED}\n{stopped(0, '')}"))
    assert "killed" not in result.error


@pytest.mark.parametrize(
    "code",
    [
        "dist.recv(torch.ones(1), src=1 - rank)",
        "while True: pass",
        "import time\nwhile True:\n    try: time.sleep(3600)\n    except KeyboardInterrupt: break",
    ],
)
def test_two_interrupts_in_a_row_kill_nothing(two, code):
    two.begin(f"%%ranks\nprint('go')\n{code}")
    two.until("go")
    for _ in range(3):
        two.interrupt()
    result = two.finish()
    assert result.error.startswith(fails(INTERRUPTED))


def test_a_rank_is_asked_again_when_the_reader_asks_again(two, standing):
    code = "import time\nfor _ in range(2):\n    try: time.sleep(3600)\n"
    code += "    except KeyboardInterrupt: print('not yet')\nprint('now')"
    two.begin(f"%%ranks\n{code}")
    for _ in range(2):
        standing.until(dict.fromkeys(range(2), r"cell line 4\b"))  # in the `try`
        two.interrupt()
        two.until(r"\[0-1\] not yet")
    assert two.finish().text.endswith("[0-1] not yet\n[0-1] now\n")


def test_a_group_that_the_reader_destroyed_comes_again(two):
    said = two.run("%%ranks\ndist.destroy_process_group()")
    assert said.text == "The process group was destroyed; the next cell gets a new one.\n"
    result = two.run("%%ranks 1\nprint(dist.get_world_size())")
    assert (result.text, result.error) == ("[1] 2\n", "")


def test_a_reader_may_make_a_group_of_their_own(two):
    """As programs do: at the top of one cell, with torchrun's variables."""
    two.run("%%ranks\ndist.destroy_process_group()")
    code = "dist.init_process_group('gloo')\nprint(dist.get_world_size())"
    result = two.run(f"%%ranks\n{code}\ndist.barrier()")
    assert (result.text, result.error) == ("[0-1] 2\n", "")
    two.run("%%ranks\ndist.destroy_process_group()")


def test_who_waited_for_whom(two, gate):
    call = re.escape("all_reduce(float32 [4]), cell line 3")
    two.begin(f"%%ranks --time\nif rank == 1: {gate.wait}\ndist.all_reduce(torch.ones(4))")
    two.until(re.escape(still_waits("[0]", "all_reduce(float32 [4])", 3)))
    gate.open()
    text = two.finish().text
    assert re.search(rf"\[0\] .* s of it waiting in {call}; .* s for rank 1\n\[1\]", text)


def test_a_cell_without_the_check_of_its_collectives(two):
    """Then the note that the check leaves is not there, and the next cell's check is not misled."""
    noted = "len(open(kernel.board._files[rank].name).readlines())"
    two.run(f"%%ranks\nkernel = get_ipython().kernel\nbefore = {noted}")
    two.run("%%ranks --no-check\ndist.barrier(); unnoted = kernel.board is None")
    result = two.run(f"%%ranks\ndist.barrier(); print(unnoted, {noted} - before)")
    assert (result.text, result.error) == ("[0-1] True 1\n", "")


def test_status_tells_state_and_last_collective(two, gate):
    """Also while a cell runs, for whoever asks from another thread."""
    two.run("%%ranks\ndist.all_reduce(torch.ones(4))")
    idle = two.run("%ranks status").text
    call = re.escape("last collective all_reduce(float32 [4]) (cell ") + r"\d+, line 2\), \d+ s ago"
    assert len(re.findall(rf"rank \d: process \d+, \d+ MiB, idle, {call}\n", idle)) == 2
    ask = "import threading, time\nfrom rankbook.magics.ranks import RanksMagics\ndef ask():\n"
    ask += "    places = ['barrier(), cell line 3', 'cell line 2']\n"
    ask += "    while any(p not in (told := RanksMagics.session.status()) for p in places):\n"
    ask += (
        f"        time.sleep(0.05)\n    open({gate.path!r}, 'w').close()\n    said.append(told)\n"
    )
    two.run(ask + "said = []\nasks = threading.Thread(target=ask)\nasks.start()")
    assert not two.run(f"%%ranks\nif rank == 1: open({gate.path!r}).close()\ndist.barrier()").error
    busy = two.run("asks.join()\nprint(said[0])").text
    assert re.search(r"rank 0: .* busy for \d+ s in cell \d+: barrier\(\), cell line 3,", busy)
    assert re.search(r"rank 1: .* busy for \d+ s in cell \d+: .*cell line 2,", busy)
