"""The recorded sessions: the pages as they are now, shown where there is no cluster."""

import nbformat
import pytest
from nbclient import NotebookClient

from benchmarks import cluster_session as session
from rankbook.testbed import recorded_cells as recorded

ANEW = "record it anew: python -m benchmarks.cluster_session {}; python -m benchmarks.readme"
PAGES = {path.stem: path for path in session.pages()}


@pytest.fixture(scope="module")
def kept():
    """The recorded cells of each page."""
    return {page: result["cells"] for page, result in recorded.recorded().items()}


def test_each_page_has_a_recording_and_no_name_is_on_two(kept):
    assert kept.keys() == PAGES.keys()
    names = [name for cells in kept.values() for name in cells]
    assert len(names) == len(set(names)), "find() asks for a cell by its name alone"


@pytest.mark.parametrize("page", PAGES)
def test_the_recorded_scripts_are_those_of_the_page(kept, page):
    scripts = session.scripts(nbformat.read(PAGES[page], as_version=4))
    assert list(kept[page]) == list(scripts), f"other cells than the page's; {ANEW.format(page)}"
    for name, script in scripts.items():
        same = recorded.same(kept[page][name]["script"], script)
        assert same, f"the cell {name} was recorded with another script; {ANEW.format(page)}"
        assert str(recorded.ROOT) not in kept[page][name]["output"], name


@pytest.mark.parametrize("page", PAGES)
def test_without_a_cluster_a_page_runs_and_shows_its_recording(kept, page, monkeypatch):
    monkeypatch.setenv("RANKBOOK_NO_CLUSTER", "1")
    notebook = nbformat.read(PAGES[page], as_version=4)
    where = {"metadata": {"path": str(session.CHAPTERS)}}
    NotebookClient(notebook, timeout=900, kernel_name="python3", resources=where).execute()
    for name, said in zip(kept[page], session.outputs(notebook), strict=True):
        first, _, rest = said.partition("\n")
        assert first.startswith("[skipped here; recorded ") and len(first.split()) == 4
        assert rest.strip() == kept[page][name]["output"].strip()
