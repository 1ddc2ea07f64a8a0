"""Tables, and the recorded results that fill them."""

import json
from pathlib import Path

import pytest

import plots

ROOT = Path(__file__).resolve().parents[3]


def test_table_as_html_and_as_text():
    table = plots.Table(["a", "long head"], [["x < y", "1"], ["y", "2"]])
    shown = table._repr_html_()
    assert "<tr><th>a</th><th>long head</th></tr>" in shown
    assert "<tr><td>x &lt; y</td><td>1</td></tr><tr><td>y</td><td>2</td></tr>" in shown
    assert repr(table) == "a      long head\nx < y  1\ny      2"


def test_results_are_found_from_a_chapters_folder(tmp_path):
    results = tmp_path / "book" / "results"
    results.mkdir(parents=True)
    for name in ("all_reduce-gpu-2", "all_reduce-cpu-2", "other-cpu-2"):
        (results / f"{name}.json").write_text(json.dumps({"name": name}), "utf-8")
    chapter = tmp_path / "chapters" / "en"
    chapter.mkdir(parents=True)
    found = [result["name"] for result in plots.recorded("all_reduce", chapter)]
    assert found == ["all_reduce-cpu-2", "all_reduce-gpu-2"]
    assert [r["name"] for r in plots.recorded("all_reduce", tmp_path)] == found


def test_no_results_beside_a_downloaded_notebook(tmp_path):
    assert plots.recorded("all_reduce", tmp_path) == []


def test_the_recorded_results_of_this_repository():
    results = plots.recorded("all_reduce", ROOT / "chapters" / "en")
    assert results, "benchmarks/all_reduce.py has recorded nothing"
    for result in results:
        assert {"what", "where", "when", "command", "rows"} <= result.keys()
        assert all({"bytes", "median", "p10", "p90", "repeats"} <= row.keys()
                   for row in result["rows"])  # fmt: skip


@pytest.mark.parametrize(
    ("said", "load"),
    [
        ({"load": 2.6}, "load 2.6"),
        ({"load_average": 6.4}, "load 6.4"),
        ({"load": {"lowest": 1.12, "highest": 1.94}}, "load 1.1 to 1.9"),
        ({}, "load not recorded"),
    ],
)
def test_a_record_says_under_what_load_it_was_made(said, load):
    made = {"where": "2 CPU cores", "when": "2026-11-22", "libraries": {"torch": "2.13.0"}}
    assert plots.provenance(made | said) == f"2 CPU cores, torch 2.13.0, 2026-11-22, {load}"
