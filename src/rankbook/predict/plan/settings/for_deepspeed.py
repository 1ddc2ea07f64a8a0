"""A layout as DeepSpeed's configuration, in JSON.

Source: https://www.deepspeed.ai/docs/config-json/
"""

import json
from typing import Any

from rankbook.predict.memory.setup import Setup
from rankbook.predict.plan.search import Plan
from rankbook.predict.plan.settings.said import Settings, filled


def of_deepspeed(plan: Plan) -> Settings:
    """The configuration file; a test gives it to DeepSpeed's own check."""
    found = configuration(plan.setup)
    text, brief = json.dumps(found, indent=2), json.dumps(found).split(", ")
    brief = "\n".join(filled(brief, ", ", indent=" "))
    return Settings("DeepSpeed 0.19", "json", text, tuple(_unsaid(plan.setup)), brief)


def configuration(setup: Setup) -> dict[str, Any]:
    """The same as a dictionary."""
    zero: dict[str, Any] = {"stage": setup.zero, "overlap_comm": True}
    if "optimizer" in setup.offload:
        zero["offload_optimizer"] = {"device": "cpu"}
    found: dict[str, Any] = {
        "train_batch_size": setup.dp * setup.microbatches * setup.sequences,
        "train_micro_batch_size_per_gpu": setup.sequences,
        "gradient_accumulation_steps": setup.microbatches,
        "bf16": {"enabled": setup.precision != "float32"},
        "zero_optimization": zero,
    }
    if setup.tp > 1:
        found["tensor_parallel"] = {"autotp_size": setup.tp}
    return found


def _unsaid(setup: Setup) -> list[str]:
    said = []
    if setup.pp > 1:
        said.append(
            f"stages stand in the program, not here: PipelineModule(layers, num_stages={setup.pp})"
            + ("; it refuses ZeRO 2 and 3" if setup.zero > 1 else "")
        )
    if setup.zero and setup.sharing < setup.dp:
        said.append(
            f"no groups of {setup.sharing} that share a copy: all replicas share one; "
            "zero_hpz_partition_size keeps a second copy of the parameters in a node"
        )
    if setup.checkpointing != "none":
        said.append("checkpointing stands in the model: deepspeed.checkpointing.checkpoint")
    if setup.zero == 3 and setup.precision == "fsdp-bf16":
        said.append("its parameters are bf16 with a copy in 32 bits: 16 bytes each all the same")
    return said
