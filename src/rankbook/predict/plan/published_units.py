"""What others measured in one unit for all: seconds of a step, and bytes."""

from typing import Any

from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup

MEMORY = ("allocated", "reserved", "card")
UNITS = {"GiB": 2**30, "MiB": 2**20}


def measured(
    table: dict[str, Any], facts: dict[str, Any], shape: ModelShape, setup: Setup
) -> dict[str, float]:
    """Of a row: "seconds" of a step, and bytes by kind of memory, from whatever its table has."""
    batch = setup.dp * setup.microbatches * setup.sequences * shape.sequence  # tokens
    unit = UNITS[table.get("unit", "GiB")]
    found = {name: facts[name] * unit for name in MEMORY if name in facts}
    if "tokens" in facts:
        found["seconds"] = batch / (facts["tokens"] * facts["gpus"])
    if "seconds" in facts:
        found["seconds"] = facts["seconds"]
    if "tflops" in facts:
        flops = shape.flops if "causal" in _last(table["counted"]) else recomputed_flops(shape)
        found["seconds"] = batch * flops / (facts["tflops"] * 1e12 * facts["gpus"])
    return found


def _last(counted: str) -> list[str]:
    """The words behind the comma, "not" taken with what follows it."""
    return counted.split(", ")[1].replace("not causal", "whole").split()


def recomputed_flops(shape: ModelShape) -> float:
    """For one token, a second forward pass counted, attention over the whole sequence.

    Source: https://arxiv.org/abs/2104.04473, equation 3.
    """
    scores = 2 * shape.sequence * shape.queries  # what causal attention leaves out
    return shape.layers * 4 * (shape.flops_of_layer + scores) + 3 * shape.flops_of_head
