"""Notebooks with live ranks, shared by the tests of a module: a start costs seconds."""

import pytest

from tests.live.kernel import Notebook


@pytest.fixture(scope="module")
def notebook():
    """A real kernel with the magics loaded."""
    with Notebook() as nb:
        assert not nb.run("%load_ext rankbook").error
        yield nb


@pytest.fixture(scope="module", params=[2, 4], ids=["2 ranks", "4 ranks"])
def live(request, notebook):
    """The notebook with 2 and then 4 live ranks; `world_size` tells which."""
    notebook.world_size = request.param
    assert not notebook.run(f"%ranks start -n {request.param}").error
    yield notebook
    assert not notebook.run("%ranks stop").error
