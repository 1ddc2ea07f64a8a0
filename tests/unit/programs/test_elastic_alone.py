"""The program elastic in this process, as the only rank."""

import pytest
import torch

from rankbook.programs.elastic import run as elastic
from rankbook.training.checkpoint import Checkpoints


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    for name in ("WORLD_SIZE", "RANK", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def test_a_run_that_is_complete_says_so(tmp_path, capsys):
    options = ["--checkpoint", str(tmp_path / "kept"), "--steps", "3"]
    assert elastic.main(options)["step"] == 3
    assert "elastic: done: step 3, epoch 0, loss " in capsys.readouterr().out
    kept = [path.name for path in Checkpoints(tmp_path / "kept").paths()]

    assert elastic.main(options)["step"] == 3
    *_, last = capsys.readouterr().out.splitlines()
    assert last == (
        f"elastic: complete already: step 3, epoch 0 in {tmp_path}/kept; nothing is left to do, "
        "unless --steps or --epochs ask for more"
    )
    assert [path.name for path in Checkpoints(tmp_path / "kept").paths()] == kept

    assert elastic.main([*options[:2], "--steps", "4"])["step"] == 4
    assert "elastic: done: step 4, epoch 1, loss " in capsys.readouterr().out
