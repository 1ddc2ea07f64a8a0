"""The benchmarks' page carries the figures of the result files, and every file its provenance."""

import json
from pathlib import Path

import pytest

from benchmarks.readme import MAGICS, README, _side_by_side, magics, text
from benchmarks.record import RESULTS, program, summary

FILES = [f for f in sorted(RESULTS.glob("*.json")) if f.stem != "chapters"]


def test_the_page_is_made_from_the_results():
    assert FILES, f"no result in {RESULTS}: the tests below would see nothing"
    assert README.read_text(encoding="utf-8") == text(), "run: python -m benchmarks.readme"


@pytest.mark.parametrize("language", MAGICS)
def test_the_table_of_the_rivals_is_made_from_their_result(language):
    page = MAGICS[language].read_text("utf-8")
    assert "| `%%ranks` |" in page, "no table: the marks are gone"
    assert page == magics(language), "run: python -m benchmarks.readme"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_result_says_what_where_when_and_how(file):
    result = json.loads(file.read_text(encoding="utf-8"))
    assert all(result[key] for key in ("what", "where", "libraries", "when", "command", "rows"))
    assert "/" not in result["where"]
    timed = [row for row in result["rows"] if "median" in row]
    assert all(row["p10"] <= row["median"] <= row["p90"] for row in timed)


def test_the_summary_of_times():
    assert summary([0.001 * n for n in range(1, 12)]) == {
        "repeats": 11,
        "median": 6.0,
        "p10": 2.0,
        "p90": 10.0,
    }


def test_ways_that_took_turns_stand_side_by_side():
    times = {"repeats": 9, "median": 2.5, "p10": 2, "p90": 3, "predicted": 4}
    rows = [{"ranks": n, "way": way} | times for n in (2, 3) for way in ("ring", "library")]
    cell = "**2.5** (2 to 3)"
    assert _side_by_side(rows, None) == rows
    assert _side_by_side(rows, "way") == [
        {"ranks": n, "repeats": 9, "ring": cell, "library": cell} for n in (2, 3)
    ]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("benchmarks/saving.py", "benchmarks.saving"),
        ("benchmarks/gpu/memory.py", "benchmarks.gpu.memory"),
        ("elsewhere/pytest", "benchmarks.pytest"),
    ],
)
def test_a_result_names_the_program_that_makes_it_again(file, name):
    assert program(Path("/srv/book") / file) == name
