"""The real Pipe of torch 2.3, kept by `make legacy`, and today's pipelining that follows it."""

import hashlib
import json
import os
import re
from pathlib import Path

import pytest
import torch

from rankbook.data import wikitext2
from rankbook.data.sources import SHA256
from tests.distributed.launch import run_ranks
from tests.distributed.legacy_ranks import train_pipeline, train_whole, whole_model

ROOT = Path(__file__).parents[2]
GOLDEN = json.loads((ROOT / "book/results/legacy-kernel.json").read_text("utf-8"))
PIPE = GOLDEN["pipe"]
TOLERANCE = 1e-5


def sha256(tensors, dtype: str) -> str:
    arrays = (tensor.detach().numpy().astype(dtype) for tensor in tensors)
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


@pytest.fixture
def float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def rows() -> torch.Tensor:
    """The ids that Pipe was trained on, (rows, steps x length + 1), made here by the book's own."""
    data = os.environ.get("RANKBOOK_DATA")
    if not data or not (Path(data) / "wikitext-2").is_dir():
        pytest.skip("RANKBOOK_DATA has no wikitext-2: this test needs the real files")
    # the most frequent tokens have the lowest ids: a smaller vocabulary is the larger's beginning
    ids = wikitext2().train
    ids = ids.where(ids < PIPE["vocabulary"], 0)
    columns = len(PIPE["losses"]) * PIPE["length"] + 1
    whole = ids[: len(ids) // PIPE["rows"] * PIPE["rows"]].view(PIPE["rows"], -1)
    return whole[:, :columns].clone()


def test_ids_and_weights_are_those_of_the_legacy_kernel(rows, float64):
    assert sha256([rows], "<i8") == PIPE["ids_int64_le_sha256"]
    weights = whole_model(PIPE).parameters()
    assert sha256(weights, "<f4") == PIPE["weights_float32_le_sha256"]


def test_pipelining_and_the_unsplit_model_follow_the_losses_of_pipe(rows, tmp_path, float64):
    by_rank = run_ranks(train_pipeline, tmp_path, 2, rows, PIPE)
    whole = train_whole(rows, PIPE)
    for losses in (whole, *by_rank):
        assert losses == pytest.approx(PIPE["losses"], rel=0, abs=TOLERANCE)


def test_the_comparison_could_fail(rows, float64):
    """A learning rate that is off by a millionth leaves the recorded losses behind."""
    nearly = train_whole(rows, PIPE | {"lr": PIPE["lr"] * (1 + 1e-6)})
    assert nearly[0] == pytest.approx(PIPE["losses"][0], rel=0, abs=TOLERANCE)
    off = (abs(a - b) for a, b in zip(nearly, PIPE["losses"], strict=True))
    assert max(off) > 10 * TOLERANCE


def test_the_record_is_of_these_cells_versions_and_texts():
    notebook = json.loads((ROOT / "book/legacy/originals.ipynb").read_text("utf-8"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    sources = {cell["id"]: "".join(cell["source"]) for cell in code[:-1]}
    assert {name: cell["source"] for name, cell in GOLDEN["cells"].items()} == sources, (
        "book/legacy/originals.ipynb was changed: run make legacy"
    )
    pinned = (ROOT / "requirements-legacy.txt").read_text("utf-8")
    versions = dict(re.findall(r"^([\w-]+)==(\S+)$", pinned, re.MULTILINE))
    assert GOLDEN["libraries"].items() <= versions.items()
    assert GOLDEN["sources"].items() <= SHA256.items() and len(GOLDEN["sources"]) == 3
    assert "site-packages" not in json.dumps(GOLDEN), "a folder of one machine"
