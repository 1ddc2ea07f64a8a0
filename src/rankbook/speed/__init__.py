"""Training faster, one factor at a time: sizes, data, recipes, and what measures them."""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

# imported when asked for, as it is slow; a name is never that of a file here, which
# importing the file would put in its place
if TYPE_CHECKING:
    from rankbook.core.timing import gain, spread, time_interleaved
    from rankbook.predict.memory.resident import PeakMemory
    from rankbook.speed.accounts import Account, Op, account, predicted_gain
    from rankbook.speed.batches import WAYS, Batch, Order, Padding, loader, make_batch, padding
    from rankbook.speed.epochs import Trained, accuracy, train
    from rankbook.speed.graph_counts import CountingBackend, watching
    from rankbook.speed.ladder import run
    from rankbook.speed.loop import Pass, Training, loader_of, one_pass
    from rankbook.speed.machine import Machine, measure_machine
    from rankbook.speed.measure import (
        device_peak,
        matmul_peak,
        share_of_peak,
        step_flop,
    )
    from rankbook.speed.number_formats import formats
    from rankbook.speed.paired import Paired, compare
    from rankbook.speed.proof import (
        Distance,
        Outcome,
        allowed,
        caught,
        check,
        control,
        gradients_of,
        kept,
        off,
        outcome,
        trained,
    )
    from rankbook.speed.recipes import LADDER, SWITCHES, Recipe, changed, recipe
    from rankbook.speed.reviews import Reviews, synthetic
    from rankbook.speed.routes import ROUTES, extract, route_flop, train_only
    from rankbook.speed.sabotage import (
        SABOTAGES,
        SUBTLE,
        boundaries_ignored,
        gelu_by_tanh,
        mask_shifted,
        norm_with_usual_epsilon,
        positions_not_restarted,
        scores_too_large,
        without_values,
    )
    from rankbook.speed.sizes import SIZES, Size, size
    from rankbook.speed.skipping import reason_to_skip
    from rankbook.speed.stopwatch import Stopwatch
    from rankbook.speed.token_file import load_tokens, save_tokens
    from rankbook.speed.tokenising import tokenised
    from rankbook.speed.traces import Span, Trace, trace

__getattr__, __dir__ = attach(__name__, __file__)
