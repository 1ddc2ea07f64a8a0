"""torch's own context parallelism, as far as it can be looked at without a GPU."""

import pytest
import torch

from rankbook.parallel.context import official


def test_a_cpu_is_refused_with_the_way_out():
    q = torch.zeros(1, 2, 8, 4)
    with pytest.raises(RuntimeError, match="takes tensors on CUDA, these are on cpu; use ring"):
        official(q, q, q, None)
    assert torch.equal(q, torch.zeros(1, 2, 8, 4))


def test_what_it_imports_is_there():
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import (
        context_parallel_unshard,
        set_rotate_method,
    )

    assert all(callable(f) for f in (context_parallel, context_parallel_unshard, set_rotate_method))
