"""Shapes from a number of parameters alone."""

import pytest

from rankbook.predict.plan.shapes import shape_from_params


@pytest.mark.parametrize(
    "parameters", [2e7, 1.24e8, 1e9, 1.3e9, 3e9, 7.5e9, 8e9, 13e9, 32e9, 70e9, 175e9, 405e9, 1e13]
)
def test_a_shape_has_as_many_parameters(parameters):
    shape = shape_from_params(parameters)
    assert shape.parameters == pytest.approx(parameters, rel=0.01)
    assert 30 < shape.hidden / shape.layers < 300
    assert 2 < shape.feed_forward / shape.hidden < 5


def test_a_large_one_can_be_cut_among_a_node():
    shape = shape_from_params(70e9)
    assert shape.kv_heads == 8
    assert shape.heads % 8 == shape.feed_forward % 8 == 0


@pytest.mark.parametrize("parameters", [0, 1e6, -7e9, 1e15, float("nan")])
def test_what_is_no_model(parameters):
    with pytest.raises(ValueError, match="20 million to 10 trillion"):
        shape_from_params(parameters)
