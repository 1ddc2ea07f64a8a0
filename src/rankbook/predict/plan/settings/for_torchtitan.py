"""A layout as a torchtitan configuration: the fields of torchtitan 0.3.0, set in Python.

Source: https://github.com/pytorch/torchtitan/blob/main/torchtitan/config/README.md
"""

from rankbook.predict.plan.search import Plan
from rankbook.predict.plan.settings.said import Settings, filled, schedule

CHECKPOINTING = {"none": "None", "layers": "FullAC.Config()"}
CHECKPOINTING |= dict.fromkeys(("selective", "attention"), "SelectiveAC.Config()")
USUAL = ("replicate_degree = 1", "tensor_parallel_degree = 1", "pipeline_parallel_degree = 1")


def of_torchtitan(plan: Plan) -> Settings:
    """Lines for the function that returns a Trainer.Config, `config`."""
    setup = plan.setup
    shards = 1 if setup.zero == 0 else setup.sharing
    local = setup.sequences * (setup.microbatches if setup.pp > 1 else 1)
    fields = {
        "training.seq_len": plan.shape.sequence,
        "training.local_batch_size": local,
        "training.global_batch_size": setup.dp * setup.sequences * setup.microbatches,
        "training.mixed_precision_param": '"bfloat16"',
        "parallelism.data_parallel_replicate_degree": setup.dp // shards,
        "parallelism.data_parallel_shard_degree": shards,
        "parallelism.tensor_parallel_degree": setup.tp,
        "parallelism.pipeline_parallel_degree": setup.pp,
    }
    if shards > 1:
        again = "always" if setup.zero == 3 and setup.reshard else "never"
        fields["parallelism.fsdp_reshard_after_forward"] = f'"{again}"'
    if setup.pp > 1:
        fields["parallelism.pipeline_parallel_schedule"] = f'"{schedule(plan).torch_name}"'
        fields["parallelism.pipeline_parallel_microbatch_size"] = setup.sequences
        # by itself it counts the embedding and the head as a layer each
        fields["parallelism.pipeline_parallel_first_stage_less_layers"] = 0
        fields["parallelism.pipeline_parallel_last_stage_less_layers"] = 0
    fields["activation_checkpoint"] = CHECKPOINTING[setup.checkpointing]
    lines = [f"config.{name} = {value}" for name, value in fields.items()]
    brief = [line for line in lines if not line.endswith(USUAL)]
    if setup.checkpointing != "none":
        name = CHECKPOINTING[setup.checkpointing].split(".")[0]
        lines.insert(0, f"from torchtitan.distributed.activation_checkpoint import {name}\n")
        brief.insert(0, lines[0].strip())
    brief = "\n".join(filled(brief, "; "))
    return Settings("torchtitan 0.3.0", "python", "\n".join(lines), tuple(_unsaid(plan)), brief)


def _unsaid(plan: Plan) -> list[str]:
    setup, said = plan.setup, []
    if setup.zero in (1, 2) and setup.dp > 1:
        said.append(
            f"no ZeRO {setup.zero}: the nearest is FSDP2 that never reshards, with parameters in "
            "32 bits, shared among replicas between steps"
        )
    elif setup.precision != "fsdp-bf16":
        said.append("parameters and gradients are in 32 bits, computed with in bf16")
    if setup.checkpointing == "selective":
        said.append("its SelectiveAC chooses by operation, and keeps other results than the plan")
    return said
