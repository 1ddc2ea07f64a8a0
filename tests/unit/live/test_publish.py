"""Values that ranks of a launch hand to the notebook: what crosses, and what is refused."""

import signal

import pytest

from rankbook.live.torchrun import publish as published


def _publish(monkeypatch, directory, rank, world_size, **values):
    monkeypatch.setenv(published.DIRECTORY, str(directory))
    monkeypatch.setenv("RANK", str(rank))
    monkeypatch.setenv("WORLD_SIZE", str(world_size))
    published.publish(**values)


def test_published_values_come_back_as_they_were(monkeypatch, tmp_path):
    import numpy as np
    import torch

    values = {
        "number": 3, "real": float("inf"), "flag": True, "nothing": None, "text": "每个 rank",
        "nested": {"a": [1, (2.5, "x")], 3: {"tuple": []}}, "item": np.float32(0.5),
    }  # fmt: skip
    tensor = torch.arange(6.0, requires_grad=True).reshape(2, 3)[:, 1:]
    _publish(monkeypatch, tmp_path, 0, 2, **values, tensor=tensor, array=np.arange(3))
    _publish(monkeypatch, tmp_path, 1, 2, number=4, tensor=tensor.bfloat16())
    _publish(monkeypatch, tmp_path, 1, 2, number=5)
    result = published.gather(published.read_published(tmp_path))
    assert {name: getattr(result, name) for name in values} == values
    assert type(result.nested["a"][1]) is tuple and type(result.item) is float
    assert torch.equal(result.tensor, tensor) and not result.tensor.requires_grad
    assert torch.equal(result.array, torch.arange(3))
    assert result.ranks[1].number == 5 and result.ranks[1].tensor.dtype == torch.bfloat16
    assert "number" in dir(result) and repr(result).startswith("[0] number=3")


def test_the_world_that_published_last_counts(monkeypatch, tmp_path):
    for rank in range(4):
        _publish(monkeypatch, tmp_path, rank, 4, step=1)
    for rank in range(2):
        _publish(monkeypatch, tmp_path, rank, 2, step=2)
    result = published.gather(published.read_published(tmp_path))
    assert [values.step for values in result.ranks] == [2, 2]
    assert repr(result) == "[0-1] step=2"


@pytest.mark.parametrize("value", [object(), {1, 2}, b"bytes", [open], signal.SIGTERM.__class__])
def test_other_values_are_refused_by_name(monkeypatch, tmp_path, value):
    with pytest.raises(TypeError, match=r"publish: thing holds a .* cannot be handed"):
        _publish(monkeypatch, tmp_path, 0, 1, thing=value)
    assert not list(tmp_path.iterdir())


def test_without_a_notebook_the_values_are_printed(monkeypatch, capsys):
    monkeypatch.delenv(published.DIRECTORY, raising=False)
    published.publish(loss=0.5, step=3)
    assert capsys.readouterr().out == "loss = 0.5, step = 3\n"
