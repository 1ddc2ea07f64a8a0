"""A layout as options of Megatron-LM's pretrain_gpt.py, with the sizes of the model.

Sources: https://docs.nvidia.com/megatron-core/developer-guide/latest/user-guide/parallelism-guide.html,
https://github.com/NVIDIA/Megatron-LM/blob/main/docs/user-guide/features/megatron_fsdp.md
"""

from collections.abc import Iterator
from dataclasses import replace

from rankbook.predict.memory.formula import fullest
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.plan.search import Plan
from rankbook.predict.plan.settings.said import Settings, command, filled, schedule

SHARDED = {2: "optim_grads", 3: "optim_grads_params"}
CHECKPOINTING = {
    "none": [],
    "attention": ["--recompute-granularity selective"],
    "selective": ["--recompute-granularity selective"],
    "layers": [
        "--recompute-granularity full",
        "--recompute-method uniform",
        "--recompute-num-layers 1",
    ],
}


def of_megatron(plan: Plan) -> Settings:
    """The launch line, without data, tokenizer and learning rates."""
    setup = plan.setup
    options = [*_layout(setup), *_stages(plan), *_batch(plan), *CHECKPOINTING[setup.checkpointing]]
    text = command(plan.machines, ["pretrain_gpt.py", *options, *_model(plan.shape)])
    brief = " \\\n".join(filled(["pretrain_gpt.py", *options], " ", indent="    "))
    return Settings("Megatron-LM", "command", text, tuple(_unsaid(plan)), brief)


def _last_stage(plan: Plan) -> int:
    """Layers of the last stage where not all are equal, and the others are; 0 or less: none."""
    pp, layers = plan.setup.pp, plan.shape.layers
    return layers - (pp - 1) * -(-layers // pp)


def _stages(plan: Plan) -> Iterator[str]:
    """It asserts that stages are equal, unless it is told how many layers the last one has."""
    if plan.shape.layers % plan.setup.pp and _last_stage(plan) > 0:
        yield f"--decoder-last-pipeline-num-layers {_last_stage(plan)}"


def _layout(setup: Setup) -> Iterator[str]:
    yield f"--tensor-model-parallel-size {setup.tp}"
    yield f"--pipeline-model-parallel-size {setup.pp}"
    if setup.chunks > 1:
        yield f"--num-virtual-stages-per-pipeline-rank {setup.chunks}"
    if setup.tp > 1:
        yield "--sequence-parallel"
    if setup.dp == 1:
        return
    if setup.zero in SHARDED:
        yield "--use-megatron-fsdp"
        yield f"--data-parallel-sharding-strategy {SHARDED[setup.zero]}"
        yield from ("--no-gradient-accumulation-fusion", "--ckpt-format fsdp_dtensor")
    if setup.zero:
        yield from ("--use-distributed-optimizer", "--overlap-param-gather")
    if setup.zero and setup.sharing < setup.dp:
        yield f"--num-distributed-optimizer-instances {setup.dp // setup.sharing}"
    yield "--overlap-grad-reduce"


def _batch(plan: Plan) -> Iterator[str]:
    setup = plan.setup
    yield f"--micro-batch-size {setup.sequences}"
    yield f"--global-batch-size {setup.dp * setup.microbatches * setup.sequences}"
    yield f"--seq-length {plan.shape.sequence}"
    yield f"--max-position-embeddings {plan.shape.sequence}"
    yield "--bf16"


def _model(shape: ModelShape) -> Iterator[str]:
    yield f"--num-layers {shape.layers}"
    yield f"--hidden-size {shape.hidden}"
    yield f"--ffn-hidden-size {shape.feed_forward}"
    yield f"--num-attention-heads {shape.heads}"
    if shape.head_size:
        yield f"--kv-channels {shape.head_size}"
    if shape.kv_heads and shape.kv_heads < shape.heads:
        yield "--group-query-attention"
        yield f"--num-query-groups {shape.kv_heads}"
    if shape.gated:
        yield "--swiglu"
    if not shape.biases:
        yield from ("--disable-bias-linear", "--normalization RMSNorm")
    if not shape.positions:
        yield "--position-embedding-type rope"
    if not shape.tied:
        yield "--untie-embeddings-and-output-weights"


def _unsaid(plan: Plan) -> list[str]:
    setup, said = plan.setup, []
    if plan.shape.layers % setup.pp and _last_stage(plan) < 1:
        said.append(
            f"it refuses this line: {plan.shape.layers} layers make no equal stages for "
            f"{setup.pp}; --pipeline-model-parallel-layout can say others"
        )
    how = "attention" if setup.checkpointing == "selective" else setup.checkpointing
    its = replace(setup, regather=True, exchanged_ahead=False, checkpointing=how)
    own = fullest(plan.shape, its)[1].total
    if how != setup.checkpointing:
        said.append(
            "its selective computes attention's core alone anew, and keeps what norms and "
            f"activations gave: its ranks hold {own / 1e9:.0f} GB, not "
            f"{plan.memory.total / 1e9:.0f}"
        )
    elif own < 0.95 * plan.memory.total:
        said.append(
            f"its ranks hold {own / 1e9:.0f} GB, not {plan.memory.total / 1e9:.0f}: it gathers the "
            "norms' results anew, and has buffers for one message of a stage, not for all"
        )
    fsdp = setup.zero in SHARDED and setup.dp > 1
    if setup.tp > 1 and not fsdp:
        said.append("on cards before Blackwell, tp needs CUDA_DEVICE_MAX_CONNECTIONS=1 around it")
    if fsdp and setup.pp > 1:
        said.append("the guide to its FSDP names tp, but no stages beside it: try this first")
    said.append("gradients are added up in 32 bits unless --grad-reduce-in-bf16 is given")
    if setup.pp > 1 and schedule(plan).name == "gpipe":
        said.append("no GPipe: its schedule is 1F1B")
    return said
