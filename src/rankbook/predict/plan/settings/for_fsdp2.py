"""A layout as calls of torch's own FSDP2, `torch.distributed.fsdp.fully_shard`.

Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html
"""

from rankbook.predict.memory.setup import Setup
from rankbook.predict.plan.search import Plan
from rankbook.predict.plan.settings.said import Settings


def of_fsdp2(plan: Plan) -> Settings:
    """Lines for a program that has `model` and `layers`, its repeated ones; a test runs them."""
    setup = plan.setup
    names, sizes = _mesh(setup)
    reshard = setup.zero == 3 and setup.reshard
    lines = [
        "import torch",
        "from torch.distributed.device_mesh import init_device_mesh",
        "from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard",
    ]
    if setup.checkpointing != "none":
        lines.insert(0, "from functools import partial\n")
        lines.append("from torch.utils.checkpoint import checkpoint")
    lines += [
        "",
        f"names = {names}",
        f"mesh = init_device_mesh(device, {sizes}, mesh_dim_names=names)",
        f"replicas = mesh[{_replicas(setup)}]",
        "policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)",
        f"how = {{'mesh': replicas, 'mp_policy': policy, 'reshard_after_forward': {reshard}}}",
        "for layer in layers:",
    ]
    if setup.checkpointing != "none":
        lines.append("    layer.forward = partial(checkpoint, layer.forward, use_reentrant=False)")
    lines += ["    fully_shard(layer, **how)", "fully_shard(model, **how)"]
    text, brief = "\n".join(lines), "\n".join(lines[lines.index("") + 1 :])
    return Settings("FSDP2 (torch 2.13)", "python", text, tuple(_unsaid(setup)), brief)


def _mesh(setup: Setup) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Names and sizes of the dimensions that there are."""
    named = {"pp": setup.pp, "dp": setup.dp, "tp": setup.tp}
    if setup.zero and setup.sharing < setup.dp:
        groups = setup.dp // setup.sharing
        named = {"pp": setup.pp, "replicate": groups, "shard": setup.sharing, "tp": setup.tp}
    here = {name: size for name, size in named.items() if size > 1 or name in ("dp", "shard")}
    return tuple(here), tuple(here.values())


def _replicas(setup: Setup) -> str:
    return '"replicate", "shard"' if setup.zero and setup.sharing < setup.dp else '"dp"'


def _unsaid(setup: Setup) -> list[str]:
    said = []
    if setup.zero < 3 and setup.dp > 1:
        said.append(
            f"no ZeRO {setup.zero}: without resharding after forward it is the nearest; "
            + ("DistributedDataParallel is ZeRO 0" if setup.zero == 0 else "states are shared")
        )
    if setup.tp > 1:
        said.append(
            "tp goes first, by the names of your model's matrices: "
            'parallelize_module(layer, mesh["tp"], {...})'
        )
    if setup.pp > 1:
        said.append("stages are torch.distributed.pipelining's: PipelineStage, Schedule1F1B")
    if setup.microbatches > 1:
        said.append(
            f"{setup.microbatches} microbatches are your loop's: as many backward passes, each "
            "with its reduce_scatter, before a step of the optimizer"
        )
    if setup.checkpointing == "selective":
        said.append("the selective policy is create_selective_checkpoint_contexts' argument")
    return said
