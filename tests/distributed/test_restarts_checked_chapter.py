"""What the page `T62_restarts_checked` shows: where one fails, a sentence has to change."""

import pickle
from unittest.mock import patch

import pytest
import torch
from torch import nn
from torch.distributed.run import get_args_parser


def test_a_save_empties_the_file_before_it_writes(tmp_path):
    path, found = tmp_path / "one.pt", []
    torch.save({"epoch": 34}, path)

    class Look:
        def __reduce__(self):
            found.append(path.stat().st_size)
            with pytest.raises(EOFError):
                torch.load(path)
            return int, ()

    torch.save({"epoch": 35, "look": Look()}, path)
    assert found == [0] and path.stat().st_size > 0


def test_load_asks_for_the_device_of_the_last_who_saved(tmp_path):
    path, asked = tmp_path / "gpu.pt", set()
    for rank in range(4):
        with patch("torch.serialization.location_tag", return_value=f"cuda:{rank}"):
            torch.save({"weight": torch.ones(3)}, path)
    torch.load(path, map_location=lambda storage, where: asked.add(where) or storage)
    assert asked == {"cuda:3"}
    assert torch.load(path, map_location="cpu")["weight"].device.type == "cpu"
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="deserialize object on a CUDA device"):
            torch.load(path)


def test_a_pickle_is_refused_unless_one_asks_for_it(tmp_path, capsys):
    class Trap:
        def __reduce__(self):
            return print, ("printed by the file",)

    torch.save({"model": Trap()}, tmp_path / "trap.pt")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "trap.pt")
    assert capsys.readouterr().out == ""
    torch.load(tmp_path / "trap.pt", weights_only=False)
    assert "printed by the file" in capsys.readouterr().out


def test_gradients_add_up_and_no_state_of_the_optimizer_keeps_them():
    """So a restart, which keeps the states of model and optimizer, empties the pile."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    model(torch.ones(1, 4)).sum().backward()
    assert model.weight.grad.tolist() == [[2.0] * 4]
    again = nn.Linear(4, 1)
    again.load_state_dict(model.state_dict())
    torch.optim.SGD(again.parameters(), lr=0.0).load_state_dict(optimizer.state_dict())
    assert again.weight.grad is None


def test_torchrun_forgives_no_failure_unless_told():
    assert get_args_parser().get_default("max_restarts") == 0
