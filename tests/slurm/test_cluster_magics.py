"""``%cluster`` and ``%%cluster`` in a real notebook."""

import pytest

from tests.live.kernel import Notebook


@pytest.fixture(scope="module")
def notebook(possible):
    with Notebook() as nb:
        assert not nb.run("%load_ext rankbook.magics.cluster").error
        assert "start one first: %cluster start" in nb.run("%%cluster early\nsinfo").error
        assert not nb.run("%cluster start").error
        yield nb


def test_starting_says_what_it_is_and_starts_one_only(notebook):
    assert "stop it first: %cluster stop" in notebook.run("%cluster start").error
    assert "idle" in notebook.run("%cluster status").text


def test_a_cell_runs_on_the_login_node_a_host_or_here(notebook):
    assert notebook.run("%%cluster where\nhostname").text == "login\n"
    assert notebook.run("%%cluster --on n2 where\nhostname").text == "n2\n"
    here = notebook.run("%%cluster --here where\nnodes = cluster.nodes\nlen(nodes)")
    assert here.text == "2\n" and notebook.run("print(nodes)").text == "['n1', 'n2']\n"


def test_output_comes_as_it_is_made_and_names_no_folder_of_this_machine(notebook):
    notebook.begin("%%cluster live\necho $SHARED/a $PWD/b; read < <(sleep 600)")
    assert "$SHARED/a b\n" in notebook.until("b\n")
    notebook.interrupt()
    notebook.finish()


def test_a_failure_raises_with_the_output_above(notebook):
    failed = notebook.run("%%cluster fails\necho before\nfalse\necho after")
    assert failed.text == "before\n"
    assert "ScriptFailed: the script failed with exit code 1" in failed.error
    assert "bash: line 3: nonsense" in notebook.run("%%cluster fails\n\nnonsense").text
    late = notebook.run("%%cluster --seconds 0.5 late\nsleep 600")
    assert "ScriptFailed: the script had not ended after 0.5 s" in late.error
    here = notebook.run("%%cluster --here fails\n1 / 0")
    assert "CellFailed: ZeroDivisionError: division by zero" in here.error


@pytest.mark.parametrize(
    ("cell", "sentence"),
    [
        ("%cluster", "%cluster needs a command; use start, status or stop"),
        ("%cluster begin", "%cluster begin is unknown"),
        ("%%cluster\nsinfo", "the following arguments are required: NAME"),
        ("%%cluster empty\n \n", "the cell is empty"),
        ("%%cluster --on n3 x\nsinfo", "--on n3: there is no such host; there are n1 and n2"),
    ],
)
def test_a_mistake_is_one_sentence(notebook, cell, sentence):
    error = notebook.run(cell).error
    assert sentence in error and len(error.splitlines()) == 1
