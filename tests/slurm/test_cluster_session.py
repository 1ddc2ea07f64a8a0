"""The recorded session: that of the chapter as it is now, and shown where there is no cluster."""

import json

import nbformat
import pytest
from nbclient import NotebookClient

from benchmarks import cluster_session as session
from rankbook.testbed import recorded_cells as recorded

ANEW = "record it anew: python -m benchmarks.cluster_session; python -m benchmarks.readme"


@pytest.fixture(scope="module")
def chapter():
    return nbformat.read(session.CHAPTER, as_version=4)


def test_the_recorded_scripts_are_those_of_the_chapter(chapter):
    kept = json.loads(recorded.PATH.read_text("utf-8"))["cells"]
    scripts = session.scripts(chapter)
    assert list(kept) == list(scripts), f"other cells than the chapter's; {ANEW}"
    for name, script in scripts.items():
        same = recorded.same(kept[name]["script"], script)
        assert same, f"the cell {name} was recorded with another script; {ANEW}"
        assert str(recorded.ROOT) not in kept[name]["output"], name


def test_without_a_cluster_the_chapter_runs_and_shows_the_recorded_session(chapter, monkeypatch):
    monkeypatch.setenv("RANKBOOK_NO_CLUSTER", "1")
    where = {"metadata": {"path": str(session.CHAPTER.parent)}}
    NotebookClient(chapter, timeout=120, kernel_name="python3", resources=where).execute()
    kept = json.loads(recorded.PATH.read_text("utf-8"))["cells"]
    for name, said in zip(kept, session.outputs(chapter), strict=True):
        first, _, rest = said.partition("\n")
        assert first.startswith("Skipped: switched off by RANKBOOK_NO_CLUSTER. What follows was")
        assert rest.strip() == kept[name]["output"].strip()
