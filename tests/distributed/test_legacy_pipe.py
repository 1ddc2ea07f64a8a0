"""The real DDP(Pipe) of torch 2.3, kept by `make legacy`, and today's pipelines that follow it."""

import ast
import hashlib
import json
import os
import re
from pathlib import Path

import pytest
import torch
from torch import nn

from originals.pipe_tutorial import tutorial_stages
from rankbook.data import wikitext2
from rankbook.data.sources import SHA256
from rankbook.models import TransformerConfig
from tests.distributed.launch import run_ranks
from tests.distributed.legacy_ranks import STAGES, train_pipelines, train_whole

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "book/results/legacy-kernel.json").read_text("utf-8"))
SETTINGS, LOSSES = GOLDEN["proof"]["settings"], GOLDEN["proof"]["losses"]
# rounding, 1e-16, grows a thousandfold at most in these steps (1e-13 was seen): other processors,
# which add in another order, have the same again ten thousand times
TOLERANCE = 1e-9


def sha256(tensors, dtype: str) -> str:
    arrays = (tensor.detach().numpy().astype(dtype) for tensor in tensors)
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


@pytest.fixture
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def ids() -> torch.Tensor:
    """The ids that DDP(Pipe) was trained on, (tokens,), made here by the book's own."""
    data = os.environ.get("RANKBOOK_DATA")
    if not data or not (Path(data) / "wikitext-2").is_dir():
        pytest.skip("RANKBOOK_DATA has no wikitext-2: this test needs the real files")
    # the most frequent tokens have the lowest ids: a smaller vocabulary is the larger's beginning
    ids = wikitext2().train
    return ids.where(ids < SETTINGS["config"]["vocab_size"], 0)


def test_ids_and_weights_are_those_of_the_legacy_kernel(ids, float64):
    assert sha256([ids], "<i8") == GOLDEN["proof"]["ids_int64_le_sha256"]
    stages = tutorial_stages(TransformerConfig(**SETTINGS["config"]), STAGES, 0)
    weights = nn.Sequential(*stages).parameters()
    assert sha256(weights, "<f4") == GOLDEN["proof"]["weights_float32_le_sha256"]


def test_pipelines_and_the_unsplit_model_follow_the_losses_of_ddp_pipe(ids, tmp_path, float64):
    whole = train_whole(ids, SETTINGS)
    for ours, theirs in zip(whole, LOSSES, strict=True):  # by replica
        assert ours == pytest.approx(theirs, rel=0, abs=TOLERANCE)
    mean = torch.tensor(LOSSES).mean(0).tolist()
    for losses in run_ranks(train_pipelines, tmp_path, 4, ids, SETTINGS):
        assert losses == pytest.approx(mean, rel=0, abs=TOLERANCE)


def test_the_comparison_could_fail(ids, float64):
    """A learning rate that is off by a millionth leaves the recorded losses behind."""
    nearly = train_whole(ids, SETTINGS | {"lr": SETTINGS["lr"] * (1 + 1e-6)})[0]
    assert nearly[0] == pytest.approx(LOSSES[0][0], rel=0, abs=TOLERANCE)
    off = (abs(a - b) for a, b in zip(nearly, LOSSES[0], strict=True))
    assert max(off) > 10 * TOLERANCE


def test_the_run_is_the_tutorials_but_for_its_width():
    """Its sizes as its page gives them; both replicas end with the same evaluation."""
    settings, replicas = GOLDEN["run"]["settings"], GOLDEN["run"]["replicas"]
    assert settings == {
        "config": {
            "d_model": 64, "d_hidden": 64, "heads": 16, "layers": 8, "vocab_size": 28782,
            "dropout": 0.2,
        },
        "chunks": 8, "rows": 20, "length": 35, "batches": 50, "epochs": 3,
        "lr": 5.0, "max_norm": 0.5, "dtype": "float32",
    }  # fmt: skip
    rates = [epoch["lr"] for epoch in replicas[0]["epochs"]]
    assert rates == pytest.approx([5.0, 4.75, 4.5125])
    assert len(replicas) == 2 and replicas[0]["test"] == replicas[1]["test"]
    assert all(len(epoch["losses"]) == 50 for gave in replicas for epoch in gave["epochs"])


def test_the_record_is_of_these_cells_functions_versions_and_texts():
    notebook = json.loads((ROOT / "book/legacy/originals.ipynb").read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    sources = {cell["id"]: "".join(cell["source"]) for cell in code[:-1]}
    assert {name: cell["source"] for name, cell in GOLDEN["cells"].items()} == sources, (
        "book/legacy/originals.ipynb was changed: run make legacy"
    )
    program = (ROOT / "book/legacy/ddp_pipe.py").read_text("utf-8")
    defined = [part for part in ast.parse(program).body if isinstance(part, ast.FunctionDef)]
    assert [part.name for part in defined] == list(GOLDEN["program"])
    for name, cell in GOLDEN["program"].items():
        assert cell["source"] in program, f"{name} of ddp_pipe.py was changed: run make legacy"
    pinned = (ROOT / "requirements-legacy.txt").read_text("utf-8")
    versions = dict(re.findall(r"^([\w-]+)==(\S+)$", pinned, re.MULTILINE))
    assert GOLDEN["libraries"].items() <= versions.items()
    assert GOLDEN["sources"].items() <= SHA256.items() and len(GOLDEN["sources"]) == 3
    assert "site-packages" not in json.dumps(GOLDEN), "a folder of one machine"
