"""What changes at 8, 64 and 512 nodes: computed, never measured, from stated assumptions.

Each function takes the number of nodes and what it needs to know of a cluster, a `ClusterSpec`.
What was measured, and goes in, comes from book/results.
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.comm.ring_model import Link, ring
    from rankbook.predict.cost_model.cluster_spec import ClusterSpec
    from rankbook.predict.cost_model.layouts import (
        PredictedStep,
        StepCosts,
        call_seconds,
        fit_message,
        fit_passes,
        message_steps,
        predict_step,
    )
    from rankbook.predict.cost_model.network import (
        assumed_link,
        crossing,
        fitted_link,
        steps_between,
        tree,
    )
    from rankbook.predict.cost_model.pipelines import pipeline_idle
    from rankbook.predict.cost_model.rendezvous import Joining, RendezvousCosts, join, watching
    from rankbook.predict.cost_model.saving import (
        Lost,
        best_period,
        exact_best_period,
        job_mtbf,
        lost_parts,
        lost_share,
        simulated_loss,
        state_bytes,
        write_seconds,
    )
    from rankbook.predict.cost_model.start_up import (
        Reads,
        questions,
        start_from_copy,
        start_from_image,
        start_shared,
        start_up_errors,
    )

__getattr__, __dir__ = attach(__name__, __file__)
