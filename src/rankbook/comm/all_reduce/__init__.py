"""all_reduce by hand, in three ways, and how long it takes: alpha and beta of a machine."""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.comm.all_reduce.alpha_beta import (
        fit_alpha_beta,
        predict,
        time_all_reduce,
        time_messages,
        time_ping_pong,
    )
    from rankbook.comm.all_reduce.by_rank_0 import all_reduce_by_rank_0
    from rankbook.comm.all_reduce.halving_doubling import halving_doubling_all_reduce
    from rankbook.comm.all_reduce.ring import ring_all_reduce

__getattr__, __dir__ = attach(__name__, __file__)
