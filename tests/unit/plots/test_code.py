"""Listings of code, and diffs."""

from pathlib import Path

from rankbook import plots
from rankbook.plots.batching import recovered
from rankbook.plots.speed import break_even_steps

ROOT = Path(__file__).resolve().parents[3]


def test_listing_is_the_file_itself():
    source = (ROOT / "src/rankbook/plots/tables.py").read_text("utf-8")
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
