"""Figures and tables of the book. Needs matplotlib and numpy only."""

from rankbook.plots.alpha_beta import alpha_beta, size_name
from rankbook.plots.collectives import collectives
from rankbook.plots.counts import counts
from rankbook.plots.join import join_timeline, sample_weights
from rankbook.plots.kept_cells import kept_cells
from rankbook.plots.listing import listing
from rankbook.plots.nodes import nodes
from rankbook.plots.overlap import overlap
from rankbook.plots.results import Table, all_reduce_table, recorded
from rankbook.plots.ring import ring_steps
from rankbook.plots.shares import shares
from rankbook.plots.simulation import schedule_costs
from rankbook.plots.style import color, style
from rankbook.plots.timeline import timeline, timelines
from rankbook.plots.wrappings import wrapping_table

__all__ = [
    "Table",
    "all_reduce_table",
    "alpha_beta",
    "collectives",
    "color",
    "counts",
    "join_timeline",
    "kept_cells",
    "listing",
    "nodes",
    "overlap",
    "recorded",
    "ring_steps",
    "sample_weights",
    "schedule_costs",
    "shares",
    "size_name",
    "style",
    "timeline",
    "timelines",
    "wrapping_table",
]
