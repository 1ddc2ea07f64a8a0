"""The pipelining tutorial's listing, on 2 ranks as it says and on 4, beside the book's re-creation.

`Transformer` and `manual_model_split` are what `T51_gpipe` shows. The text is a Chinese copy; its
listing is the tutorial's, without the function for the tracer. It parses as it is: nothing is
repaired but the sizes, which a CPU could not do in reasonable time.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from originals import pipelining_tutorial
from originals.pipelining_tutorial import ModelArgs, Transformer
from tests.originals.listing import listing

pytestmark = pytest.mark.long

TEXT = "5-pipelining-schedule-gpipe.md"
SMALLER = {"dim: int = 512": "dim: int = 64", "= 10000": "= 1000", r"\(32, 500": "(16, 20"}
VOCAB, WIDTH, LAYERS, HEADS = 1000, 64, 8, 8


def printed() -> str:
    return listing(TEXT, "import torch", "   dist.destroy_process_group()")


def replaced(text: str, changes: dict[str, str]) -> str:
    for wrong, right in changes.items():
        text, places = re.subn(wrong, right, text)
        assert places, wrong
    return text


def smaller() -> str:
    return replaced(printed(), SMALLER)


def names() -> dict:
    """What the listing defines, without its main part."""
    found = {"__name__": "listing"}
    exec(smaller(), found)
    return found


def torchrun(script: str, ranks: int, folder: Path) -> tuple[int, dict[str, str]]:
    """The exit status, and what each rank printed."""
    (folder / "listing.py").write_text(script, "utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += [
        "--nproc-per-node",
        str(ranks),
        "--redirects",
        "3",
        "--log-dir",
        str(folder / "log"),
    ]
    run = subprocess.run(
        [*command, str(folder / "listing.py")],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    told: dict[str, str] = {}
    for path in sorted((folder / "log").rglob("std*.log")):
        told[path.parent.name] = told.get(path.parent.name, "") + path.read_text("utf-8")
    return run.returncode, told


def filled(model: torch.nn.Module, like: torch.nn.Module) -> torch.nn.Module:
    """`model` with the values of `like`: both name their parts in the same order."""
    values = [value.clone() for value in like.state_dict().values()]
    model.load_state_dict(dict(zip(model.state_dict(), values, strict=True)))
    return model.eval()


def both() -> tuple[torch.nn.Module, torch.nn.Module, dict]:
    """The listing's model and the re-creation, with the same values."""
    found = names()
    theirs = found["Transformer"](found["ModelArgs"]()).eval()
    return theirs, filled(Transformer(ModelArgs(WIDTH, LAYERS, HEADS, VOCAB)), theirs), found


@torch.no_grad()
def test_the_re_creation_computes_what_the_listing_computes():
    theirs, ours, _ = both()
    x = torch.randint(VOCAB, (16, 20))
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=0)
    assert ours.layers["0"].dropout.p == theirs.layers["0"].dropout.p == 0.1


@pytest.mark.parametrize("index", range(4))
def test_the_re_creation_keeps_what_the_listing_keeps(index, monkeypatch):
    theirs, ours, found = both()
    found |= {"stage_index": index, "num_stages": 4, "device": torch.device("cpu")}
    found["PipelineStage"] = lambda model, *place: model
    theirs = found["manual_model_split"](theirs)
    monkeypatch.setattr(pipelining_tutorial, "PipelineStage", lambda model, *place: model)
    ours = pipelining_tutorial.manual_model_split(ours, index, 4, torch.device("cpu"))
    assert list(theirs.layers) == list(ours.layers)
    theirs_has = [theirs.tok_embeddings, theirs.norm, theirs.output]
    ours_has = [ours.tok_embeddings, ours.norm, ours.output]
    assert [part is None for part in theirs_has] == [part is None for part in ours_has]


def losses(told: str) -> int:
    return len(re.findall(r"tensor\(\d", told))


def test_two_ranks_as_it_says(tmp_path):
    status, told = torchrun(smaller(), 2, tmp_path)
    assert status == 0, told
    assert losses(told["1"]) == 4 and not losses(told["0"])  # one for each microbatch


COMPARED = {
    # one model on both ranks, without dropout; what is compared is the output
    r"model = Transformer\(model_args\)": "torch.manual_seed(0); model = Transformer(model_args)"
    ".eval(); x = WORDS; whole = model(x).detach() if rank else None",
    r"\n   x = torch.ones.*": "",
    r"print\(f\"losses": 'print("off by", (output - whole).abs().max().item()); print(f"losses',
}


@pytest.mark.parametrize(
    ("words", "is_the_model"),
    [("torch.ones(16, 20, dtype=torch.long)", True), ("torch.randint(1000, (16, 20))", False)],
)
def test_it_is_its_model_on_its_own_data_only(words, is_the_model, tmp_path):
    script = replaced(smaller(), COMPARED).replace("WORDS", words)
    status, told = torchrun(script, 2, tmp_path)
    assert status == 0, told
    off = float(re.search(r"off by (\S+)", told["1"])[1])
    assert off <= 1e-5 if is_the_model else off > 0.1


def test_four_ranks_as_printed(tmp_path):
    """Ranks 2 and 3 take neither branch: they leave, and no stage is computed on any rank."""
    status, told = torchrun(smaller(), 4, tmp_path)
    assert status == 1
    assert "Error" not in told.get("2", "") + told.get("3", "")
    assert "in step\n" in told["1"] and "embedding" not in told["1"]
    assert re.search("Connection (closed|reset) by peer|Broken pipe", told["1"])


ALL_STEP = {r"elif rank == 1:": "elif rank < num_stages - 1:\n      schedule.step()\n   else:"}


def test_four_ranks_that_all_take_the_step(tmp_path):
    """Stage 2 has kept its embedding, and is given stage 1's output: floats."""
    status, told = torchrun(replaced(smaller(), ALL_STEP), 4, tmp_path)
    assert status == 1
    assert "Expected tensor for argument #1 'indices'" in told["2"]
    assert "but got torch.FloatTensor instead" in told["2"]
    assert all("embedding" not in told[rank] for rank in ("0", "1", "3"))
