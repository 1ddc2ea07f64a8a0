"""Families of models whose config.json a plan can read: which key says what, and what is usual.

The parameters that a `ModelShape` has no field for (norms of queries, biases of some matrices) are
counted by `Family.extra`; tests compare the sum with the models of the library transformers.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from rankbook.predict.memory.model_shape import ModelShape

Config = Mapping[str, Any]
Extra = Callable[[ModelShape, Config], int]

KEYS = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "heads": "num_attention_heads",
    "feed_forward": "intermediate_size",
    "vocabulary": "vocab_size",
    "longest": "max_position_embeddings",
}
GPT2 = {
    "layers": "n_layer",
    "hidden": "n_embd",
    "heads": "n_head",
    "feed_forward": "n_inner",
    "vocabulary": "vocab_size",
    "longest": "n_positions",
}


class Family(NamedTuple):
    """How the models of one `model_type` are made. extra: parameters that the shape leaves out."""

    keys: Mapping[str, str] = KEYS
    gated: bool = True
    biases: bool = False
    tied: bool = False
    positions: bool = False
    extra: Extra = lambda shape, config: 0
    what: str = ""  # the extra parameters are


def _llama(shape: ModelShape, config: Config) -> int:
    attention = shape.queries + 2 * shape.keys + shape.hidden
    perceptron = 2 * shape.feed_forward + shape.hidden
    biases = attention * bool(config.get("attention_bias"))
    return shape.layers * (biases + perceptron * bool(config.get("mlp_bias")))


def _head_norms(shape: ModelShape, config: Config) -> int:
    biases = (shape.queries + 2 * shape.keys + shape.hidden) * bool(config.get("attention_bias"))
    return shape.layers * (2 * shape.queries // shape.heads + biases)


def _positions(shape: ModelShape, rows: int) -> int:
    return (rows - shape.sequence) * shape.hidden  # rows beyond the sequence that is trained


FAMILIES: dict[str, Family] = {
    "llama": Family(extra=_llama, what="biases"),
    "mistral": Family(),
    "granite": Family(extra=_llama, what="biases"),
    "smollm3": Family(tied=True, extra=_llama, what="biases"),
    "phi3": Family(),
    "qwen2": Family(
        extra=lambda s, c: s.layers * (s.queries + 2 * s.keys),
        what="biases of queries, keys and values",
    ),
    "qwen3": Family(extra=_head_norms, what="norms of queries and keys"),
    "olmo2": Family(
        extra=lambda s, c: s.layers * (s.queries + s.keys), what="norms of queries and keys"
    ),
    "gemma": Family(tied=True),
    "gemma2": Family(
        tied=True, extra=lambda s, c: s.layers * 2 * s.hidden, what="two more norms a layer"
    ),
    "gemma3_text": Family(
        tied=True,
        extra=lambda s, c: s.layers * 2 * s.hidden + _head_norms(s, c),
        what="four more norms a layer",
    ),
    "gpt2": Family(
        GPT2,
        gated=False,
        biases=True,
        tied=True,
        positions=True,
        extra=lambda s, c: _positions(s, c["n_positions"]),
        what="positions beyond the sequence",
    ),
    "gpt_neox": Family(gated=False, biases=True),
    "opt": Family(
        KEYS | {"feed_forward": "ffn_dim"},
        gated=False,
        biases=True,
        tied=True,
        positions=True,
        extra=lambda s, c: _positions(s, (c.get("max_position_embeddings") or s.sequence) + 2),
        what="positions beyond the sequence",
    ),
    "starcoder2": Family(gated=False, biases=True, tied=True),
}
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
ENCODERS = ("bert", "roberta", "electra", "albert", "t5", "bart", "vit", "clip", "whisper")
