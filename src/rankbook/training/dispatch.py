"""accelerate's dispatcher for any number of ranks, run in one process.

Needs ``accelerate``, and loads it: import this where it is used.
"""

import warnings
from collections.abc import Sequence
from types import SimpleNamespace

import torch
from torch.utils.data import DataLoader

with warnings.catch_warnings():  # in a notebook tqdm misses widgets that nobody needs here
    warnings.simplefilter("ignore")
    from accelerate.data_loader import prepare_data_loader
    from accelerate.utils import slice_tensors


def dispatched(numbers: Sequence[int], batch_size: int, world_size: int) -> list[list[int]]:
    """What each of `world_size` ranks gets when rank 0 reads `numbers` for all of them.

    batch_size: of a rank. accelerate's own dispatcher does the work, as rank 0 runs it: it reads
    a batch for each rank, joins them, and cuts. Only its broadcasts have nobody to talk to.
    """
    steps: list[list[list[int]]] = []

    def cut(batch, part, **_):
        size = part.stop - part.start
        steps.append([batch[rank * size :][:size].tolist() for rank in range(world_size)])
        return slice_tensors(batch, part)

    cpu = torch.device("cpu")
    loader = prepare_data_loader(
        DataLoader(list(numbers), batch_size),  # pyrefly: ignore[bad-argument-type]
        cpu,
        put_on_device=True,
        dispatch_batches=True,
        slice_fn_for_dispatch=cut,
    )
    loader.state = SimpleNamespace(process_index=0, num_processes=world_size, device=cpu)
    for _ in loader:
        pass
    # the first cut is no step: it sets samples aside that fill up the last batch
    return [[n for step in steps[1:] for n in step[rank]] for rank in range(world_size)]
