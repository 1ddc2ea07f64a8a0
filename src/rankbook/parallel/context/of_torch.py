"""torch's own context parallelism, an experimental API that needs a GPU."""

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.nn import functional as F


def official(q: Tensor, k: Tensor, v: Tensor, mesh: DeviceMesh, rotate: str = "alltoall") -> Tensor:
    """Causal attention by `torch.distributed.tensor.experimental.context_parallel`.

    q, k, v: (batch, heads, length, d_head), the whole sequences, alike on all ranks, on CUDA. mesh:
    of one dimension, all ranks of which call. rotate: how keys and values go round, "alltoall" (a
    block at a time) or "allgather" (all at once). Returns the whole result, the same on all ranks,
    joined from the ranks' parts; without gradients. Raises RuntimeError on a CPU, for whose fused
    kernel torch 2.13 has no strategy.

    Nobody has run it here: this project's tests have no GPU. Written from torch's tutorial,
    https://docs.pytorch.org/tutorials/unstable/context_parallel.html
    """
    if q.device.type != "cuda":
        raise RuntimeError(
            f"torch's context_parallel takes tensors on CUDA, these are on {q.device}; "
            "use ring_attention, which runs anywhere"
        )
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import (
        context_parallel_unshard,
        set_rotate_method,
    )
    from torch.nn.attention import SDPBackend, sdpa_kernel

    set_rotate_method(rotate)
    q, k, v = parts = [x.detach().clone() for x in (q, k, v)]  # cut in place, in zigzag order
    fused = sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION])
    with fused, torch.no_grad():
        with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2, 2, 2]):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        (whole,) = context_parallel_unshard(mesh, [y], [2])
    return whole
