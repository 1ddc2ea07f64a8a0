"""Figures and tables of the book. Needs matplotlib and numpy only."""

from rankbook.plots.alpha_beta import alpha_beta, size_name
from rankbook.plots.collectives import collectives
from rankbook.plots.listing import listing
from rankbook.plots.results import Table, all_reduce_table, recorded
from rankbook.plots.ring import ring_steps
from rankbook.plots.style import color, style
from rankbook.plots.wrappings import wrapping_table

__all__ = [
    "Table",
    "all_reduce_table",
    "alpha_beta",
    "collectives",
    "color",
    "listing",
    "recorded",
    "ring_steps",
    "size_name",
    "style",
    "wrapping_table",
]
