"""DeepSpeed's ZeRO, stages 1 to 3, in the process group that is there.

Source: https://arxiv.org/abs/1910.02054, https://www.deepspeed.ai/docs/config-json/
"""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from rankbook.speed.batches import Batch
from rankbook.speed.strategies.strategy import Strategy, moments, storages

# What is kept in the memory of the host instead of the device's
OFFLOAD = {
    None: {},
    "state": {"offload_optimizer": {"device": "cpu"}},
    "all": {"offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}},
}


def prepare(
    model: nn.Module,
    lr: float,
    device: torch.device,
    stage: int = 2,
    bucket_mb: float = 25,
    live: int | None = None,
    offload: str | None = None,
    rows: int = 1,
    bf16: bool = False,
) -> Strategy:
    """An engine of DeepSpeed around the model, with torch's Adam.

    stage: 1 shards the optimizer's state, 2 the gradients too, 3 the parameters too. bucket_mb:
    MiB of gradients that are sent together, at most; DeepSpeed's own choice is 1907, of which
    stage 3 allocates all. live: of stage 3, how many parameters may be whole at once; DeepSpeed's
    own choice is 10^9. offload: None, or what lies on the host: "state", with its update, or in
    stage 3 "all", the shards of the parameters too. rows: samples of a rank in a step, by which
    DeepSpeed reports its throughput. bf16: parameters, gradients and messages in bfloat16, beside
    which it keeps this rank's shard of the parameters in 32 bits.
    Raises ValueError for another stage or `offload`, ImportError without DeepSpeed.
    """
    if stage not in (1, 2, 3):
        raise ValueError(f"there is no ZeRO stage {stage}; use 1, 2 or 3")
    if offload not in OFFLOAD or (offload == "all" and stage < 3):
        raise ValueError(f"stage {stage} has no offload {offload!r}; use 'state', in 3 also 'all'")
    bucket = min(int(bucket_mb * 2**20 / 4), sum(p.numel() for p in model.parameters()))
    with _quiet():
        deepspeed = _import(device)
        engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=torch.optim.Adam(model.parameters(), lr=lr),
            config=settings(stage, bucket, rows, bf16, live, offload),
        )
    return _Engine(engine, engine.optimizer, device)


def settings(
    stage: int,
    bucket: int,
    rows: int,
    bf16: bool = True,
    live: int | None = None,
    offload: str | None = None,
) -> dict:
    """DeepSpeed's configuration: `rows` of a rank in a step, `bucket` numbers sent at once."""
    zero = {"stage": stage, "reduce_bucket_size": bucket, **OFFLOAD[offload]}
    if stage == 3:
        zero["stage3_param_persistence_threshold"] = 0  # small parameters are cut too
        if live is not None:  # fetched ahead, and kept because they are used again soon
            zero |= {"stage3_max_live_parameters": live, "stage3_max_reuse_distance": live}
            zero |= {"stage3_prefetch_bucket_size": live}
    config = {
        "train_micro_batch_size_per_gpu": rows,
        "gradient_accumulation_steps": 1,
        "bf16": {"enabled": bf16},  # False: all in 32 bits, only to compare
        "zero_optimization": zero,
        "steps_per_print": 2**31,
    }
    if offload:  # torch's Adam on the host; its own is faster, and compiled at the first use
        config["zero_force_ds_cpu_optimizer"] = False
    return config


class _Engine(Strategy):
    def __init__(self, model, optimizer, device):
        super().__init__(model, optimizer, device)
        self.gradients: dict[int, int] = {}

    def step(self, *batches: Batch) -> torch.Tensor:
        """As everywhere, but of one batch: the engine counts parts by itself, of one size."""
        if len(batches) > 1:
            raise ValueError(
                f"{self.name} takes one batch a step, not {len(batches)}; "
                "set gradient_accumulation_steps in its configuration instead"
            )
        with _quiet():
            return super().step(*batches)

    def zero_grad(self) -> None:
        pass  # the engine has forgotten them in its step

    def backward(self, loss: torch.Tensor) -> None:
        self.model.backward(loss)

    def update(self) -> None:
        self.gradients = storages(self._gradients())  # the step lets go of them
        self.model.step()

    def held(self) -> dict[str, dict[int, int]]:
        inner = self.optimizer
        if hasattr(inner, "fp32_partitioned_groups_flat"):  # stage 3
            parameters = [p.ds_tensor for p in self.model.parameters()]
            copies = inner.fp32_partitioned_groups_flat
            buckets = [bucket.buffer for bucket in inner.ipg_buckets.values()]
        else:
            parameters = self.model.parameters()
            copies = inner.single_partition_of_fp32_groups
            buckets = [part for bucket in inner.ipg_buckets.values() for part in bucket.buffer]
        return {
            "parameters": storages(parameters),
            "gradients": storages(self._gradients()) or self.gradients,
            "state": storages([*copies, *moments(inner.optimizer)]),
            "buffers": storages(buckets),
        }

    def _gradients(self) -> list[torch.Tensor]:
        shards = self.optimizer.averaged_gradients.values()
        mine = [gradient for group in shards if group is not None for gradient in group]
        return mine + [p.grad for p in self.model.parameters()]

    def close(self) -> None:
        with _quiet():
            self.model.destroy()  # its hooks would keep the model


def _import(device: torch.device) -> Any:
    os.environ.setdefault("LOCAL_RANK", str(device.index or 0))  # it insists on one
    if device.type == "cpu":
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # it would warn that it found no GPU
    try:
        import deepspeed
    except ImportError as error:
        raise ImportError("DeepSpeed is not installed; pip install deepspeed") from error
    # Its all_reduce in shared memory is for inference. Where there is a compiler, DeepSpeed would
    # build it at the first use, for a minute or more, into the reader's home.
    with _no_stderr():
        deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    return deepspeed


@contextmanager
def _no_stderr() -> Iterator[None]:
    """Without what a compiler says to DeepSpeed, which tries what it could build."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without its log of every setting, and warnings of what it uses of torch."""
    log = logging.getLogger("DeepSpeed")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        log.setLevel(before)
