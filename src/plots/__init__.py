"""Figures and tables of the book, by subject. Needs matplotlib and numpy only.

A figure's function takes the data first, draws it in the book's `style`, and returns the
`matplotlib.figure.Figure`; where there is nothing to draw, it raises ValueError in one sentence
that begins with its name. Data that come from a result file are given as `recorded` returns them.
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from plots.backward import backward_traces
    from plots.batching import padding, padding_recovered, recovered
    from plots.causal import attention_pairs
    from plots.checked import predictions_checked
    from plots.code import listing, loop_diff, recorded_cells
    from plots.communication import (
        alpha_beta,
        bus_bandwidth,
        race,
        race_errors,
        size_name,
    )
    from plots.compiling import compiling_calls
    from plots.cost_model import (
        agents_meet,
        all_reduce_at_scale,
        share_at_scale,
        start_at_scale,
        start_up_measured,
    )
    from plots.cuts import shards
    from plots.ddp import by_step, overlap
    from plots.diffs import module_diff
    from plots.elastic import elastic_timeline
    from plots.events import elastic_gaps, elastic_table, elastic_worlds
    from plots.experts import expert_loads, token_routes
    from plots.join import join_timeline, sample_weights
    from plots.layout_trials import layout_table
    from plots.learning import learning_curves, recipe_table
    from plots.losses import LearningCurve, growing_batches, loss_curves, world_losses
    from plots.marks import key
    from plots.memory_checks import memory_checked
    from plots.mesh import layout_pace, layout_traffic
    from plots.owners import owner_parts
    from plots.pace import throughput
    from plots.pipelines import wrapping_changes, wrapping_table
    from plots.placement import nodes
    from plots.plan_checks import plan_checked
    from plots.plans import plan_memory, plan_times
    from plots.predicted import idle_by_ranks, predictions
    from plots.rank_bytes import cheapest_ways, step_memory
    from plots.ranks import more_ranks, reading_rates
    from plots.rings import collectives, queue, ring_steps
    from plots.roofs import roofline
    from plots.samples import batch_cut, counts, lost, shares
    from plots.saving import save_timeline
    from plots.schedule_steps import schedule_step
    from plots.schedules import timeline, timelines
    from plots.slow_links import link_use, loss_on_link
    from plots.soaking import soak
    from plots.speed import break_even, break_even_steps, ladder, ladder_table
    from plots.step_traces import step_trace
    from plots.strategies import rank_memory, scaling
    from plots.tables import Table, provenance, recorded
    from plots.theme import color, powers, style
    from plots.waterfall import speed_up_steps

__getattr__, __dir__ = attach(__name__, __file__)
