"""``%%ranks`` when all goes well: state, output, values, completion."""

import re

import pytest

from tests.waiting import until


def test_cells_run_on_every_rank_and_keep_their_variables(live):
    live.run("%%ranks\nx = 10 * rank")
    n = live.world_size
    result = live.run("%%ranks\nt = torch.tensor([x]); dist.all_reduce(t); print(t.item())")
    assert result.text == f"[0-{n - 1}] {10 * n * (n - 1) // 2}\n"


def test_the_environment_is_that_of_torchrun(live):
    names = "RANK LOCAL_RANK GROUP_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT"
    live.run(f"%%ranks\nimport os\nhere = [os.environ[n] for n in '{names}'.split()]")
    everywhere = live.run("%ranks get here").text
    n = live.world_size
    for rank in range(n):
        assert re.search(rf"'{rank}', '{rank}', '0', '{n}', '{n}', '127.0.0.1', '\d+'", everywhere)


def test_a_cell_can_be_for_some_ranks(live):
    assert live.run("%%ranks 0\nprint(rank)").text == "[0] 0\n"
    assert live.run("%%ranks 0,1\nprint('hello')").text == "[0-1] hello\n"


def test_output_streams_while_the_cell_runs(live, gate):
    live.begin(f"%%ranks\nprint('early')\n{gate.wait}\nprint('late')")
    live.until("early")
    gate.open()
    assert live.finish().text.endswith("late\n")


def test_a_rank_that_prints_slowly_does_not_hold_back_the_others(live, gate):
    live.run("window, output.WINDOW = output.WINDOW, 0.15")
    live.begin(f"%%ranks\nif rank == 0: {gate.wait}\nprint('here')")
    live.until(r"\[1.*\] here")
    gate.open()
    # beside it, whoever was slow enough to come with it
    assert re.search(r"^\[0[^]]*\] here$", live.finish().text, re.MULTILINE)
    live.run("output.WINDOW = window")


def test_the_value_of_the_last_line_is_shown(live):
    assert live.run("%%ranks\nworld_size").text == f"[0-{live.world_size - 1}] {live.world_size}\n"


def test_ten_megabytes_of_stderr_do_not_block(live):
    lines = 10_000_000 // live.world_size // 1000
    code = f"%%ranks\nimport sys\nfor i in range({lines}): print('e' * 999, file=sys.stderr)"
    assert live.run(code).text.count("e" * 999) == lines


def test_progress_bars_are_one_block_with_a_line_for_each_rank(live):
    code = "%%ranks\nfrom tqdm.auto import tqdm\nfor i in tqdm(range(30)): pass\nprint('after')"
    result = live.run(code)
    last = [line for line in result.text.split("\n") if "30/30" in line][-live.world_size :]
    assert [line[:3] for line in last] == [f"[{r}]" for r in range(live.world_size)]
    assert "\r" not in result.text and "Warning" not in result.text
    assert f"[0-{live.world_size - 1}] after" in result.text


def test_figures_are_shown_with_their_rank(live):
    code = "%%ranks 1\nimport matplotlib.pyplot as plt\nplt.plot([0, 1])\nplt.show()"
    assert live.run(code).text == "[1] \n<Figure size 640x480 with 1 Axes>\n"


def test_get_gives_tensors_as_tensors(live):
    live.run("%%ranks\nt = torch.arange(3) * rank")
    assert "tensor([0, 1, 2])" in live.run("%ranks get t").text
    code = "value = get_ipython().run_line_magic('ranks', 'get t --from 1')\ntype(value).__name__"
    assert "'Tensor'" in live.run(code).text
    assert live.run("t.tolist()").text == "[0, 1, 2]\n"


def test_put_gives_every_rank_its_own_copy(live):
    live.run("numbers = {'a': [1, 2]}")
    assert not live.run("%ranks put numbers").error
    result = live.run("%%ranks\nnumbers['a'].append(rank); print(len(numbers['a']))")
    assert result.text == f"[0-{live.world_size - 1}] 3\n"
    assert live.run("numbers").text == "{'a': [1, 2]}\n"


def test_names_on_the_ranks_are_completed(live):
    live.run("%%ranks\na_name_on_the_ranks = 1")
    assert _offered(live, "%%ranks\na_name_on") == ["a_name_on_the_ranks"]
    assert "a_name_on_the_ranks" not in live.complete("a_name_on")
    assert _offered(live, "%%ranks\nx = 1\nx + a_name_on_the_ranks.bit_l")[0].endswith("bit_length")


def _offered(live, code: str) -> list[str]:
    """What is offered once the ranks answer in time: a reader would press the key again, too."""
    return until(lambda: live.complete(code))


def test_status_names_every_process(live):
    text = live.run("%ranks status").text
    assert text.startswith(f"{live.world_size} ranks: gloo on cpu")
    assert len(re.findall(r"rank \d: process \d+, \d+ MiB", text)) == live.world_size


@pytest.mark.parametrize("statement", ["%%time\nrank", "%timeit -n1 -r1 rank"])
def test_ipythons_own_magics_work_on_a_rank(live, statement):
    assert not live.run(f"%%ranks\n{statement}").error


def test_a_warning_names_the_cells_line(live):
    result = live.run("%%ranks 0\nimport warnings\nwarnings.warn('careful')")
    assert result.text == "[0] Cell line 3: UserWarning: careful\n"


def test_workers_of_a_loader_know_what_cells_define(live):
    """As in a program: they are forked from the rank, not started by the server of the ranks."""
    live.run("%%ranks\nclass Squares(torch.utils.data.Dataset):\n    def __len__(self): return 4\n"
             "    def __getitem__(self, i): return i * i")  # fmt: skip
    result = live.run("%%ranks\nloader = torch.utils.data.DataLoader(Squares(), num_workers=2)\n"
                      "print([x.item() for x in loader])")  # fmt: skip
    n = live.world_size
    assert (result.error, result.text) == ("", f"[0-{n - 1}] [0, 1, 4, 9]\n")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("%%ranks 7\n1", "there is no rank 7: the ranks are 0 to"),
        ("%%ranks all\n1", "%%ranks all: give ranks like 0 or 0,2"),
        ("%ranks start -n 2", "ranks are running already; stop them first: %ranks stop"),
        ("%ranks get nowhere", "%ranks get nowhere: on rank 0, name 'nowhere' is not defined"),
        ("%ranks get rank --from 9", "there is no rank 9: the ranks are 0 to"),
        ("%ranks put nowhere", "%ranks put: 'nowhere' is not defined in the notebook"),
        ("class C: pass\nc = C()\n%ranks put c", "of a class that exists only in the notebook"),
        ("f = lambda: 1\n%ranks put f", "'f' is a function, which cannot be sent"),
    ],
)
def test_wrong_use_with_ranks(live, code, sentence):
    assert sentence in live.run(code).error


def test_an_object_whose_class_is_on_the_ranks_stays_there(live):
    assert not live.run("%%ranks\nclass D: pass\nd = D()").error
    error = live.run("%ranks get d").error
    assert "'d' is of a class that exists only on the ranks" in error
