"""Figures and tables of the book. Needs matplotlib and numpy only."""

from rankbook.plots.alpha_beta import alpha_beta, size_name
from rankbook.plots.break_even import break_even
from rankbook.plots.collectives import collectives
from rankbook.plots.counts import counts
from rankbook.plots.join import join_timeline, sample_weights
from rankbook.plots.kept_cells import kept_cells
from rankbook.plots.ladder import ladder, ladder_table
from rankbook.plots.listing import listing
from rankbook.plots.loop_diff import loop_diff
from rankbook.plots.nodes import nodes
from rankbook.plots.overlap import overlap
from rankbook.plots.padding import padding, padding_recovered
from rankbook.plots.rank_memory import rank_memory
from rankbook.plots.results import Table, all_reduce_table, recorded
from rankbook.plots.ring import ring_steps
from rankbook.plots.scaling import scaling
from rankbook.plots.shares import shares
from rankbook.plots.simulation import schedule_costs
from rankbook.plots.style import color, style
from rankbook.plots.timeline import timeline, timelines
from rankbook.plots.wrappings import wrapping_table

__all__ = [
    "Table",
    "all_reduce_table",
    "alpha_beta",
    "break_even",
    "collectives",
    "color",
    "counts",
    "join_timeline",
    "kept_cells",
    "ladder",
    "ladder_table",
    "listing",
    "loop_diff",
    "nodes",
    "overlap",
    "padding",
    "padding_recovered",
    "rank_memory",
    "recorded",
    "ring_steps",
    "sample_weights",
    "scaling",
    "schedule_costs",
    "shares",
    "size_name",
    "style",
    "timeline",
    "timelines",
    "wrapping_table",
]
