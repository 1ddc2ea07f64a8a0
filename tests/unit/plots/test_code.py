"""Listings of code, and diffs."""

from pathlib import Path

import pytest

import plots
from plots.batching import recovered
from plots.speed import break_even_steps

ROOT = Path(__file__).resolve().parents[3]


def test_listing_is_the_file_itself():
    source = (ROOT / "src/plots/tables.py").read_text("utf-8")
    shown = plots.listing(plots.recorded)
    assert repr(shown) in source and repr(shown).startswith("def recorded(")
    assert shown._repr_markdown_() == f"```python\n{shown!r}\n```"
    assert "\n\nclass Table" in repr(plots.listing(plots.recorded, plots.Table))


def test_a_diff_of_two_loops():
    before = "def a(x):\n    y = x < 1\n    return y\n"
    after = "    def a(x):\n        y = f(x) < 1\n        return y\n"
    found = plots.loop_diff(before, after)
    assert (found.removed, found.added) == (["y = x < 1"], ["y = f(x) < 1"])
    assert repr(found) == "  def a(x):\n-     y = x < 1\n+     y = f(x) < 1\n      return y"
    shown = found._repr_html_()
    assert "lines: 1 out, 1 in, 2 the same" in shown and "y = f(x) &lt; 1" in shown
    assert shown.count("<tr>") == 4


def test_a_diff_of_functions_is_that_of_their_sources():
    found = plots.loop_diff(break_even_steps, recovered)
    assert any("def break_even_steps(" in line for line in found.removed)
    assert any("def recovered(" in line for line in found.added)
    assert plots.loop_diff(break_even_steps, break_even_steps).added == []


def test_recorded_cells_are_code_and_what_it_printed_and_functions_are_code():
    one = {"source": "print(1)", "output": "1"}
    result = {"cells": {"one": one}, "program": {"f": {"source": "def f(): ...", "output": ""}}}
    shown = plots.recorded_cells(result, "one", "f")
    assert repr(shown) == "print(1)\n\n1\n\ndef f(): ..."
    blocks = "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\ndef f(): ...\n```"
    assert shown._repr_markdown_() == blocks
    with pytest.raises(KeyError):
        plots.recorded_cells(result, "two")
