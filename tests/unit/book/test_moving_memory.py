"""What the figure says that a rank keeps: against what torch keeps, and what strategies keep."""

import dataclasses

import pytest
import torch
from bookext.moving_data.memory import CHECKPOINTING, MODELS, activations, rank_memory
from torch.nn import functional as F

from rankbook.predict.memory import ModelShape, Setup
from rankbook.speed.strategies import memory

SMALL = ModelShape(2, 32, 4, 128, vocabulary=100, sequence=16, dropout=True)
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
    setup = Setup(sequences=B, precision=precision, checkpointing=checkpointing)
    two, one = (activations(model, setup) for model in models)
    return two - one


@pytest.mark.parametrize(
    ("precision", "dtype"), [("bf16", torch.bfloat16), ("float32", torch.float32)]
)
def test_activations_of_a_layer_are_what_torch_keeps(precision, dtype):
    tokens = SMALL.sequence * B
    norms = 2 * 2 * tokens * dtype.itemsize  # the mean and the deviation of each row
    sums = 4 * tokens * SMALL.heads  # which the fused kernel keeps in 32 bits, to compute anew
    assert left_behind(dtype) == by_formula(precision, "none") + norms
    assert left_behind(dtype, fused=True) == by_formula(precision, "attention") + norms + sums


def test_a_layer_that_is_computed_anew_keeps_its_input_only():
    for precision, width in (("bf16", 2), ("float32", 4)):
        assert by_formula(precision, "layers") == SMALL.sequence * B * SMALL.hidden * width


@pytest.mark.parametrize(
    ("strategy", "zero"), [("ddp", 0), ("zero1", 1), ("deepspeed2", 2), ("fsdp2", 3)]
)
def test_in_32_bits_it_is_the_other_formula_and_what_is_whole_for_a_moment(strategy, zero):
    model, ranks = MODELS["1.3"], 8
    found = rank_memory(model, Setup(zero=zero, dp=ranks, precision="float32"))
    kept = memory.formula(strategy, model.parameters, ranks)
    ours = 12 if strategy == "deepspeed2" else 8  # DeepSpeed has a copy, even in 32 bits
    assert found["optimizer"] * ours / 8 == kept.state
    root = model.embedding + model.head
    gathered = 4 * (root + 2 * model.layer) if zero == 3 else 0
    assert found["parameters"] == kept.parameters + gathered
    assert found["gradients"] == kept.gradients + (4 * model.layer if zero >= 2 else 0)


def test_shapes_have_the_parameters_that_they_are_called_by():
    for name, model in MODELS.items():
        rounded = round(model.parameters / 1e9, 1 if "." in name else 0)
        assert rounded == float(name)


def test_what_divides_what():
    model = MODELS["6.7"]
    setup = Setup(sequences=4, checkpointing="attention")
    alone = rank_memory(model, setup)
    tensor = rank_memory(model, dataclasses.replace(setup, tp=8))
    assert tensor == {part: value / 8 for part, value in alone.items()}
    stages = rank_memory(model, dataclasses.replace(setup, pp=4))
    assert stages["optimizer"] == 12 * (model.embedding + model.head + 8 * model.layer)
    # a quarter of the layers, and four microbatches under way: only the logits are elsewhere
    logits = 4 * 4 * model.sequence * (model.vocabulary + model.hidden)
    masks = 3 * 4 * model.sequence * model.hidden
    assert stages["activations"] == alone["activations"] - logits + masks
    for kind in CHECKPOINTING:
        whole = Setup(checkpointing=kind)
        assert rank_memory(model, dataclasses.replace(whole, zero=3)) == rank_memory(model, whole)


def test_what_does_not_exist_is_one_sentence():
    with pytest.raises(ValueError, match="ZeRO has the stages 0 to 3, not 4"):
        rank_memory(SMALL, Setup(zero=4))
    with pytest.raises(ValueError, match="checkpointing 'selective': use one of none, attention"):
        rank_memory(SMALL, Setup(checkpointing="selective"))
