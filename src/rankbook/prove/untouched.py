"""A proof leaves no trace: parameters, buffers, optimizers and random numbers are as before."""

import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rankbook.core.dtensor import to_local
from rankbook.prove.optimizers import LEFT_OUT, innermost


@contextmanager
def kept(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Give `tensors` their values back afterwards, in place; gradients are cleared."""
    tensors = list(tensors)
    saved = [(to_local(tensor), to_local(tensor).clone()) for tensor in tensors]
    for tensor in tensors:
        tensor.grad = None
    try:
        yield
    finally:
        with torch.no_grad():
            for memory, values in saved:
                memory.copy_(values)
        for tensor in tensors:
            tensor.grad = None


@contextmanager
def emptied(optimizers: Iterable[Any]) -> Iterator[None]:
    """Let `optimizers` begin with an empty state; give them theirs and the settings back."""
    every = {id(o): o for each in optimizers for o in (each, innermost(each))}.values()
    saved = [(o, o.state, [dict(group) for group in o.param_groups]) for o in every]
    for optimizer, _, _ in saved:
        optimizer.state = defaultdict(dict)
    try:
        yield
    finally:
        for optimizer, state, groups in saved:
            optimizer.state = state
            for group, before in zip(optimizer.param_groups, groups, strict=True):
                for key in group.keys() - before.keys():
                    del group[key]
                group.update({k: v for k, v in before.items() if k not in LEFT_OUT})


@contextmanager
def refusing(optimizers: Iterable[Any], why: str) -> Iterator[None]:
    """Let a step of one of `optimizers` raise ValueError: `why`."""

    def stop(*_: Any) -> None:
        raise ValueError(why)

    hooks = [each.register_step_pre_hook(stop) for each in optimizers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """Give the generators of this process their states back: torch's, Python's, numpy's."""
    python, numpy = random.getstate(), sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy else None
    gpus = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(gpus):
        try:
            yield
        finally:
            random.setstate(python)
            if numpy and of_numpy is not None:
                numpy.random.set_state(of_numpy)


def seed_all(seed: int) -> None:
    """Begin all generators of this process anew."""
    torch.manual_seed(seed)  # GPUs too
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)
