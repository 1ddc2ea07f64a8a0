"""torch's own compressor: gradients as products of thin matrices, PowerSGD.

Source: T. Vogels et al., https://arxiv.org/abs/1905.13727
"""

from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
    PowerSGDState,
    powerSGD_hook,
)
from torch.nn.parallel import DistributedDataParallel


def power_sgd(
    model: DistributedDataParallel, rank: int = 1, feedback: bool = True, from_step: int = 2
) -> PowerSGDState:
    """Have `model` send its gradients as matrices of `rank` columns from step `from_step` on.

    Only matrices get smaller, and only if that saves half; the rest goes as it is. What has been
    sent: `compression_stats()` of what is returned, in entries of matrices. Call it before the
    first backward. Source: https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html
    """
    state = PowerSGDState(
        process_group=model.process_group,
        matrix_approximation_rank=rank,
        start_powerSGD_iter=from_step,
        min_compression_rate=2,
        use_error_feedback=feedback,
        warm_start=feedback,
    )
    model.register_comm_hook(state, powerSGD_hook)
    return state
