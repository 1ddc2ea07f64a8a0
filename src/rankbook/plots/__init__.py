"""Figures and tables of the book, by subject. Needs matplotlib and numpy only.

A figure's function takes the data first, draws it in the book's `style`, and returns the
`matplotlib.figure.Figure`; where there is nothing to draw, it raises ValueError in one sentence
that begins with its name. Data that come from a result file are given as `recorded` returns them.
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.plots.backward import backward_traces
    from rankbook.plots.batching import padding, padding_recovered, recovered
    from rankbook.plots.causal import attention_pairs
    from rankbook.plots.checked import predictions_checked
    from rankbook.plots.code import listing, loop_diff, recorded_cells
    from rankbook.plots.communication import (
        alpha_beta,
        bus_bandwidth,
        race,
        race_errors,
        size_name,
    )
    from rankbook.plots.compiling import compiling_calls
    from rankbook.plots.cost_model import (
        agents_meet,
        all_reduce_at_scale,
        share_at_scale,
        start_at_scale,
        start_up_measured,
    )
    from rankbook.plots.cuts import shards
    from rankbook.plots.ddp import by_step, overlap
    from rankbook.plots.diffs import module_diff
    from rankbook.plots.elastic import elastic_timeline
    from rankbook.plots.events import elastic_gaps, elastic_table, elastic_worlds
    from rankbook.plots.experts import expert_loads, token_routes
    from rankbook.plots.join import join_timeline, sample_weights
    from rankbook.plots.layout_trials import layout_table
    from rankbook.plots.learning import learning_curves, recipe_table
    from rankbook.plots.losses import LearningCurve, growing_batches, loss_curves, world_losses
    from rankbook.plots.marks import key
    from rankbook.plots.memory_checks import memory_checked
    from rankbook.plots.mesh import layout_pace, layout_traffic
    from rankbook.plots.owners import owner_parts
    from rankbook.plots.pace import throughput
    from rankbook.plots.pipelines import wrapping_changes, wrapping_table
    from rankbook.plots.placement import nodes
    from rankbook.plots.plan_checks import plan_checked
    from rankbook.plots.plans import plan_memory, plan_times
    from rankbook.plots.predicted import idle_by_ranks, predictions
    from rankbook.plots.rank_bytes import cheapest_ways, step_memory
    from rankbook.plots.ranks import more_ranks, reading_rates
    from rankbook.plots.rings import collectives, queue, ring_steps
    from rankbook.plots.roofs import roofline
    from rankbook.plots.samples import batch_cut, counts, lost, shares
    from rankbook.plots.saving import save_timeline
    from rankbook.plots.schedule_steps import schedule_step
    from rankbook.plots.schedules import timeline, timelines
    from rankbook.plots.slow_links import link_use, loss_on_link
    from rankbook.plots.soaking import soak
    from rankbook.plots.speed import break_even, break_even_steps, ladder, ladder_table
    from rankbook.plots.step_traces import step_trace
    from rankbook.plots.strategies import rank_memory, scaling
    from rankbook.plots.tables import Table, provenance, recorded
    from rankbook.plots.theme import color, powers, style
    from rankbook.plots.waterfall import speed_up_steps

__getattr__, __dir__ = attach(__name__, __file__)
