"""What a rank keeps, by formula: against what torch keeps, and against the other formula."""

import dataclasses

import pytest
import torch
from torch.nn import functional as F

from rankbook import cost_model
from rankbook.cost_model import CHECKPOINTING, MODELS, Transformer, rank_memory
from rankbook.speed.strategies import memory

SMALL = Transformer(layers=2, hidden=32, heads=4, vocabulary=100, sequence=16)
B = 3  # sequences


def dropped(x):
    """Dropout as on a GPU, where the mask has a byte a value."""
    return torch.native_dropout(x, 0.1, True)[0]


def layer(x, weights, fused):
    """A layer of the plain kind, its norms first; x (s, b, h)."""
    s, b, h = x.shape
    qkv, out, up, down = weights
    normed = F.layer_norm(x, [h])
    q, k, v = ((normed @ part).view(s, b * 4, h // 4).transpose(0, 1) for part in qkv)
    if fused:
        mixed = F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
    else:
        scores = (q @ k.transpose(1, 2)) * 0.1
        mixed = dropped(scores.softmax(-1)) @ v
    x = x + dropped(mixed.transpose(0, 1).reshape(s, b, h) @ out)
    return x + dropped(F.gelu(F.layer_norm(x, [h]) @ up) @ down)


def left_behind(dtype, fused=False) -> int:
    """Bytes that torch keeps for the backward pass of one layer, parameters aside."""
    h = SMALL.hidden
    shapes = [(h, h)] * 4 + [(h, 4 * h), (4 * h, h)]
    q, k, v, *others = (torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes)
    known = {weight.untyped_storage().data_ptr() for weight in (q, k, v, *others)}
    found = {}

    def note(tensor):
        found[tensor.untyped_storage().data_ptr()] = tensor  # keeps it, so no address comes twice
        return tensor

    x = torch.randn(SMALL.sequence, B, h, dtype=dtype, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        layer(x, ((q, k, v), *others), fused)
    return sum(t.untyped_storage().nbytes() for at, t in found.items() if at not in known)


def by_formula(precision, checkpointing) -> float:
    """What one layer more adds."""
    models = (dataclasses.replace(SMALL, layers=layers) for layers in (2, 1))
    given = {"sequences": B, "precision": precision, "checkpointing": checkpointing}
    two, one = (cost_model.activations(model, **given) for model in models)
    return two - one


@pytest.mark.parametrize(
    ("precision", "dtype"), [("bf16", torch.bfloat16), ("fp32", torch.float32)]
)
def test_activations_of_a_layer_are_what_torch_keeps(precision, dtype):
    tokens = SMALL.sequence * B
    norms = 2 * 2 * tokens * dtype.itemsize  # the mean and the deviation of each row
    sums = 4 * tokens * SMALL.heads  # which the fused kernel keeps in 32 bits, to compute anew
    assert left_behind(dtype) == by_formula(precision, "nothing") + norms
    assert left_behind(dtype, fused=True) == by_formula(precision, "attention") + norms + sums


def test_a_layer_that_is_computed_anew_keeps_its_input_only():
    for precision, width in (("bf16", 2), ("fp32", 4)):
        assert by_formula(precision, "layers") == SMALL.sequence * B * SMALL.hidden * width


@pytest.mark.parametrize(
    ("strategy", "zero"), [("ddp", 0), ("zero1", 1), ("deepspeed2", 2), ("fsdp2", 3)]
)
def test_in_32_bits_it_is_the_other_formula_and_what_is_whole_for_a_moment(strategy, zero):
    model, ranks = MODELS["1.3"], 8
    found = rank_memory(model, zero, data=ranks, precision="fp32")
    kept = memory.formula(strategy, model.parameters, ranks)
    ours = 12 if strategy == "deepspeed2" else 8  # DeepSpeed has a copy, even in 32 bits
    assert found.optimizer * ours / 8 == kept.state
    gathered = 4 * (model.root + 2 * model.layer) if zero == 3 else 0
    assert found.parameters == kept.parameters + gathered
    assert found.gradients == kept.gradients + (4 * model.layer if zero >= 2 else 0)


def test_shapes_have_the_parameters_that_they_are_called_by():
    for name, model in MODELS.items():
        rounded = round(model.parameters / 1e9, 1 if "." in name else 0)
        assert rounded == float(name)


def test_what_divides_what():
    model = MODELS["6.7"]
    alone = rank_memory(model, sequences=4)
    tensor = rank_memory(model, sequences=4, tensor=8)
    for part, value in vars(alone).items():
        assert getattr(tensor, part) == value / 8
    stages = rank_memory(model, sequences=4, pipeline=4)
    assert stages.optimizer == 12 * (model.root + 8 * model.layer)
    # a quarter of the layers, and four microbatches under way: only the logits are elsewhere
    logits = 4 * 4 * model.sequence * (model.vocabulary + model.hidden)
    masks = 3 * 4 * model.sequence * model.hidden
    assert stages.activations == alone.activations - logits + masks
    for kind in CHECKPOINTING:
        assert rank_memory(model, 3, data=1, checkpointing=kind) == rank_memory(
            model, checkpointing=kind
        )


def test_what_does_not_exist_is_one_sentence():
    with pytest.raises(ValueError, match="ZeRO has the stages 0 to 3, not 4"):
        rank_memory(SMALL, 4)
    with pytest.raises(ValueError, match="checkpointing 'some': use one of nothing, attention"):
        rank_memory(SMALL, checkpointing="some")
