"""What a plan reads off any module, and the sentence for each function that gives none."""

import pytest
import torch
from torch import nn

from rankbook.models import TransformerConfig, TransformerLM
from rankbook.predict.memory import ModelShape
from rankbook.predict.plan.module_loading import load_module, said
from rankbook.predict.plan.modules import find_layers, model_from_module, read_off

HERE = "tests.unit.predict.plan.module_examples"


def test_the_books_own_model():
    config = TransformerConfig(1000, d_model=256, d_hidden=1024, heads=4, layers=4, max_length=128)
    with torch.device("meta"):
        model = read_off(TransformerLM(config), "whole")
    assert model.shape == ModelShape.of(config)
    assert model.parameters == model.shape.parameters
    assert model.assumed[0] == "4 layers: TransformerLayer in layers"


def test_another_one():
    model = model_from_module(f"{HERE}:encoder")
    shape = model.shape
    assert (shape.layers, shape.hidden, shape.heads, shape.feed_forward) == (3, 128, 4, 512)
    assert shape.positions and shape.sequence == 64 and not shape.gated
    assert model.parameters == shape.parameters


def test_grouped_and_gated():
    shape = model_from_module(f"{HERE}:llama_like", 256).shape
    assert (shape.heads, shape.kv_heads, shape.feed_forward) == (8, 2, 320)
    assert shape.gated and not shape.biases and shape.tied and shape.sequence == 256


def test_the_largest_group_is_taken():
    small = nn.ModuleList(nn.Linear(2, 2) for _ in range(9))
    large = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    found = find_layers(nn.ModuleDict({"a": small, "b": large}))
    assert (found.path, found.kind, len(found.modules)) == ("b", "Linear", 2)
    with pytest.raises(ValueError, match="no repeated layers were found; keep at least two"):
        find_layers(nn.Linear(2, 2))


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("model", "--module takes package.file:function, and 'model' has no such form"),
        (":fn", "has no such form"),
        ("no_such_package:fn", "no_such_package cannot be imported (ModuleNotFoundError: No mod"),
        (f"{HERE}:nothing_there", f"{HERE} has no function nothing_there; name one that"),
        (f"{HERE}:value", "has no function, but a value, value; name one that returns an nn.Mod"),
        (f"{HERE}:needs_arguments", "raised TypeError: needs_arguments() missing 1 required"),
        (f"{HERE}:a_dictionary", "a_dictionary() returned a dict; return an nn.Module"),
        (f"{HERE}:empty", "empty() has no parameters; return a model that can be trained"),
        (f"{HERE}:images", "images() has no nn.Embedding, so it reads no tokens"),
    ],
)
def test_what_is_wrong_is_one_sentence(spec, says):
    with pytest.raises(ValueError) as error:
        model_from_module(spec)
    assert says in str(error.value) and "\n" not in str(error.value)


def test_positions_end():
    with pytest.raises(ValueError, match="has positions for 64 tokens; use --sequence 64 or less"):
        model_from_module(f"{HERE}:encoder", 128)


def test_nothing_is_allocated():
    assert all(p.is_meta for p in load_module(f"{HERE}:encoder").parameters())


def test_an_error_without_words():
    assert said(KeyError()) == "KeyError" and said(ValueError("a\nb")) == "ValueError: a"
