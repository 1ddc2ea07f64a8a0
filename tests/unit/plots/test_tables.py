"""Tables of recorded results, and listings of code."""

import json
from pathlib import Path

from rankbook import plots

ROOT = Path(__file__).resolve().parents[3]
RESULT = {
    "kind": "CPU",
    "where": "2 CPU cores",
    "libraries": {"torch": "2.13.0"},
    "ranks": 2,
    "backend": "gloo",
    "when": "2026-01-31",
    "fit": {"alpha_seconds": 4e-4, "beta_seconds_per_byte": 2e-9},
}


def test_a_row_for_a_result_and_one_for_what_is_missing():
    table = plots.all_reduce_table([RESULT])
    assert table.rows == [
        ["2 CPU cores, torch 2.13.0", "2", "gloo", "400 µs", "0.50 GB/s", "2026-01-31"],
        ["GPU", "", "", "", "", "not measured yet"],
    ]


def test_what_was_measured_is_not_called_missing():
    table = plots.all_reduce_table([RESULT, RESULT | {"kind": "GPU", "where": "2 x H200"}])
    assert "not measured" not in repr(table)


def test_a_time_that_does_not_grow():
    flat = RESULT | {"fit": {"alpha_seconds": 4e-4, "beta_seconds_per_byte": 0.0}}
    assert plots.all_reduce_table([flat]).rows[0][4] == "not seen"


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
    assert len(plots.all_reduce_table(results).rows) >= len(results)


def test_listing_is_the_file_itself():
    source = (ROOT / "src/rankbook/plots/results.py").read_text("utf-8")
    shown = plots.listing(plots.recorded)
    assert repr(shown) in source and repr(shown).startswith("def recorded(")
    assert shown._repr_markdown_() == f"```python\n{shown!r}\n```"
    assert "\n\nclass Table" in repr(plots.listing(plots.recorded, plots.Table))
