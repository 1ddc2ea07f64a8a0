"""A live rank that trains as a `Setup` says: the book's model on a mesh, with its cures."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy

from rankbook.core.dtensor import to_local
from rankbook.models.transformer import TransformerConfig, TransformerLM
from rankbook.parallel.mesh.building import build
from rankbook.parallel.mesh.layout import Layout
from rankbook.parallel.mesh.sharded_model import ShardedModel
from rankbook.parallel.mesh.stepping import accumulate
from rankbook.predict.memory.cures import OnHost, checkpoint_layers
from rankbook.predict.memory.setup import Setup
from rankbook.predict.memory.updating import Sharing, Update

BUILT = {  # of what a formula can describe, what a live rank is
    "regather": False,
    "eager_attention": False,
    "sequence_parallel": True,
    "exchanged_ahead": True,
    "chunks": 1,
}
Marking = Callable[[str], AbstractContextManager]


class LiveStep:
    """What trains on this rank; call it with a batch for one step. `prepare` makes it.

    part: the model's part on this rank. marking: the context in which tensors of a part that only
    the step itself can tell, "host", are made; a recorder sets it.
    """

    def __init__(self, part: ShardedModel, setup: Setup, update: Update):
        self.part, self.setup, self.optimizer = part, setup, update
        self.marking: Marking = lambda part: nullcontext()

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.part.device

    def __call__(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """One step on the whole batch (sequences x microbatches x dp, window), alike on all ranks.

        Returns the loss before it, the same on all ranks.
        """
        self.optimizer.zero_grad()
        loss = self.accumulate(tokens, targets)
        self.update()
        return loss

    def accumulate(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Forward and backward of all microbatches, and the gradients averaged over replicas."""
        saving: AbstractContextManager = nullcontext()
        if "activations" in self.setup.offload:
            saving = OnHost(self.part.parameters(), lambda: self.marking("host"))
        with saving:
            return accumulate(self.part, tokens, targets)

    def update(self) -> None:
        """The optimizer's work, which is the host's where its state is there."""
        with self.marking("host") if self.optimizer.host else nullcontext():
            self.optimizer.step()

    def held(self) -> dict[str, dict[int, int]]:
        """Address and bytes of the storages that stay, by part; "host" is the host's memory."""
        states = "host" if self.optimizer.host else "optimizer"
        return {
            "parameters": _storages(list(self.part.parameters())),
            "gradients": _storages(self.optimizer.gradients()),
            states: _storages(self.optimizer.states()),
        }


def prepare(
    config: TransformerConfig,
    setup: Setup,
    device: torch.device | str = "cpu",
    seed: int = 0,
    lr: float = 1e-3,
    mesh: DeviceMesh | None = None,
) -> LiveStep:
    """This rank's part of the model that `initialise` fills from `seed`, to be trained by AdamW.

    On all ranks of `setup`, in a process group (also of one). mesh: one that `setup.layout.mesh`
    has made. zero 3 is FSDP2; 1 and 2 are `rankbook.predict.memory.updating`. Raises ValueError for
    what is described but not built here, and as `rankbook.parallel.mesh.build`.
    """
    for name, only in BUILT.items():
        if getattr(setup, name) != only:
            raise ValueError(f"no live rank is built with {name}={getattr(setup, name)}")
    if setup.precision == "bf16-fp32-grads":
        raise ValueError("no live rank adds gradients up in 32 bits; use bf16, or float32")
    if setup.precision == "fsdp-bf16" and setup.layout.shard == 1:
        raise ValueError("fsdp-bf16 is FSDP2's own precision; use zero=3 and dp=2 or more")
    device = torch.device(device)
    mesh = mesh or setup.layout.mesh(device.type)
    mixed = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    options: dict = {"mp_policy": mixed} if setup.precision == "fsdp-bf16" else {}
    if not setup.reshard:  # otherwise FSDP2's own choice: layers are, the root is not
        options["reshard_after_forward"] = False

    def change(stage: TransformerLM) -> None:
        if setup.precision in ("bf16", "bf16-states"):
            stage.to(torch.bfloat16)
        checkpoint_layers(stage, setup.checkpointing)

    part = build(
        config, setup.layout, device, seed, setup.schedule, setup.microbatches,
        mesh=mesh, change=change, **options,
    )  # fmt: skip
    update = Update(
        part.parameters(),
        _sharing(setup, mesh),
        lr,
        copies=setup.precision == "bf16",
        host="optimizer" in setup.offload,
        scatter=setup.zero == 2,
        times=setup.microbatches,
    )
    return LiveStep(part, setup, update)


def _sharing(setup: Setup, mesh: DeviceMesh) -> Sharing:
    """Who shares what stages 1 and 2 of ZeRO cut; FSDP2's stage 3 sees to itself."""
    if setup.zero not in (1, 2) or setup.dp == 1:
        return Sharing()
    if setup.sharing == setup.dp:
        return Sharing(mesh["dp"].get_group())
    layout: Layout = replace(setup.layout, shard=setup.sharing)
    if setup.sharing == 1:
        return Sharing(None, mesh["dp"].get_group())
    both = layout.sharing(mesh)
    return Sharing(both["shard"].get_group(), both["replicate"].get_group())


def _storages(tensors: list) -> dict[int, int]:
    """Address and bytes of each storage under `tensors`; of a DTensor, what lies on this rank."""
    storages = [to_local(tensor).untyped_storage() for tensor in tensors]
    return {each.data_ptr(): each.nbytes() for each in storages if each.nbytes()}
