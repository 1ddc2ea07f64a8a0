"""Any nn.Module as a plan sees it: its parameters counted, its layers found, its sizes read off."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from torch import nn

from rankbook.models.transformer import TransformerLM
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.plan.configs import model_of
from rankbook.predict.plan.model import SEQUENCE, Model
from rankbook.predict.plan.module_loading import load_module
from rankbook.predict.plan.quantities import short

HEADS = ("heads", "num_heads", "n_heads", "n_head", "num_attention_heads", "nhead")
KV_HEADS = ("kv_heads", "num_kv_heads", "n_kv_heads", "num_key_value_heads")
HEAD_SIZE = ("head_dim", "d_head", "head_size")
USUAL_HEAD = 128  # columns of a head where nothing says


class Layers(NamedTuple):
    """The repeated layers of a module: where they are, of which class, and themselves."""

    path: str
    kind: str
    modules: list[nn.Module]


def count_parameters(module: nn.Module) -> int:
    """All parameters, shared ones once."""
    return sum(p.numel() for p in module.parameters())


def find_layers(module: nn.Module) -> Layers:
    """The largest group of children of one class and one size that a container holds.

    Raises ValueError where nothing is repeated.
    """
    groups = list(_groups(module))
    if not groups:
        raise ValueError(
            "no repeated layers were found; keep at least two of one class in an nn.ModuleList, "
            "nn.ModuleDict or nn.Sequential"
        )
    return max(groups, key=lambda group: sum(map(count_parameters, group.modules)))


def model_from_module(spec: str, sequence: int = 0) -> Model:
    """The model that "package.file:function" makes, with sizes as its layers have them.

    sequence: tokens it will be trained on, 0 for 4,096. Raises ValueError, in one sentence.
    """
    module = load_module(spec)
    total = count_parameters(module)
    if not total:
        raise ValueError(f"{spec}() has no parameters; return a model that can be trained")
    config = getattr(module, "config", None)
    if hasattr(config, "to_dict"):  # of the library transformers
        try:
            model = model_of(config.to_dict(), spec, sequence)
            return Model(model.name, model.shape, total, model.assumed)
        except ValueError:
            pass  # of a family without entry: its layers tell as much
    return read_off(module, spec, sequence)


def read_off(module: nn.Module, name: str, sequence: int = 0) -> Model:
    """The model of a decoder that has been made: what its layers say. Raises ValueError."""
    layers = find_layers(module)
    inside = {id(m) for layer in layers.modules for m in layer.modules()}
    outside = [m for m in module.modules() if id(m) not in inside]
    tables = [m for m in outside if isinstance(m, nn.Embedding)]
    if not tables:
        raise ValueError(
            f"{name}() has no nn.Embedding, so it reads no tokens, and layouts are planned for "
            "language models only; --params with its number of parameters gives its states"
        )
    table = max(tables, key=lambda m: m.num_embeddings)
    head = [
        m for m in outside if isinstance(m, nn.Linear) and m.out_features == table.num_embeddings
    ]
    longest = _longest(module, tables)
    if sequence > longest:
        raise ValueError(
            f"{name}() has positions for {longest} tokens; use --sequence {longest} or less"
        )
    assumed = [f"{len(layers.modules)} layers: {layers.kind} in {layers.path}"]
    if not sequence:
        sequence = int(min(SEQUENCE, longest))
        assumed.append(f"sequences of {sequence} tokens (--sequence)")
    shape = _shape(layers, table, sequence, assumed, {
        "tied": not head or head[0].weight is table.weight,
        "head_bias": bool(head) and head[0].bias is not None,
        "positions": len(tables) > 1,
        "relu": isinstance(module, TransformerLM),
    })  # fmt: skip
    total = count_parameters(module)
    if abs(shape.parameters / total - 1) > 0.01:
        assumed.append(
            f"the sizes read off it make {short(shape.parameters)} parameters of {short(total)}: "
            "activations and arithmetic are those of the sizes"
        )
    return Model(name, shape, total, tuple(assumed))


def _shape(
    layers: Layers, table: nn.Embedding, sequence: int, assumed: list[str], rest: dict[str, bool]
) -> ModelShape:
    layer, hidden = layers.modules[0], table.embedding_dim
    matrices = [p for p in layer.parameters() if p.dim() == 2]
    wide = [w for p in matrices for w in p.shape if w != hidden and hidden in p.shape]
    feed_forward = _wide(layer, hidden) or max(wide, default=hidden)
    perceptron = [p for p in matrices if set(p.shape) & {feed_forward, 2 * feed_forward}]
    whole = sum(p.numel() for p in matrices)
    inner = sum(p.numel() for p in perceptron) if feed_forward != hidden else whole - 4 * hidden**2
    size = _attribute(layer, HEAD_SIZE)
    heads = _attribute(layer, HEADS) or (hidden // size if size else 0)
    if not heads:
        heads = max(1, hidden // USUAL_HEAD)
        assumed.append(f"{heads} heads: nothing in a layer says how many")
    queries = heads * (size or hidden // heads)
    keys = max(1, round((whole - inner) / hidden / 2 - queries))
    kv_heads = _attribute(layer, KV_HEADS) or max(1, round(heads * keys / queries))
    return ModelShape(
        len(layers.modules),
        hidden,
        heads,
        feed_forward,
        table.num_embeddings,
        sequence,
        kv_heads=kv_heads if heads % kv_heads == 0 and kv_heads < heads else 0,
        head_size=size if size and size * heads != hidden else 0,
        gated=inner > 2.5 * hidden * feed_forward,
        biases=any(n.endswith("bias") and p.dim() == 1 for n, p in layer.named_parameters()),
        **rest,
    )


def _longest(module: nn.Module, tables: list[nn.Embedding]) -> float:
    """Tokens that there are positions for; no end without a table of them."""
    if isinstance(module, TransformerLM) and module.positions is not None:
        return len(module.positions.table)
    return min(m.num_embeddings for m in tables) if len(tables) > 1 else math.inf


def _wide(layer: nn.Module, hidden: int) -> int:
    """The input of the matrix that leads back to `hidden`: the perceptron's width; 0 if none."""
    linear = (m for m in layer.modules() if isinstance(m, nn.Linear) and m.out_features == hidden)
    return max((m.in_features for m in linear), default=0)


def _attribute(layer: nn.Module, names: tuple[str, ...]) -> int:
    """The first whole number that a part of the layer has under one of `names`; 0 if none."""
    for part in layer.modules():
        for name in names:
            value = getattr(part, name, None)
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
    return 0


def _groups(module: nn.Module) -> Iterator[Layers]:
    for path, part in module.named_modules():
        if isinstance(part, nn.ModuleList | nn.ModuleDict | nn.Sequential):
            kinds = Counter((type(c), count_parameters(c)) for c in part.children())
            for (kind, size), found in kinds.items():
                if found > 1 and size:
                    same = (c for c in part.children() if type(c) is kind)
                    alike = [c for c in same if count_parameters(c) == size]
                    yield Layers(path or "the module", kind.__name__, alike)


def module_without_shape(spec: str) -> Model:
    """A module that reads no tokens: its parameters are counted, its shape stands for nothing.

    Raises ValueError, in one sentence.
    """
    total = count_parameters(load_module(spec))
    nothing = ModelShape(1, 1, 1, 1, 1, 1)
    return Model(spec, nothing, total, ("no language model: its states alone are known",))
