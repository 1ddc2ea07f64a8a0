"""The removed tutorial on Pipe and DDP: its own listing beside what its pages say of it.

The pages' cells are run from their files, the listing from the original's text: its batches, the
sum and division of its evaluation, and the numbers of its log.
"""

import json
import math
import re
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional

from tests.originals.listing import ORIGINALS, listing

TEXT = "1-pipe-ddp-wikitext2.md"
CHAPTERS = Path(__file__).parents[2] / "chapters" / "en"
DATA, TRAINING = "T11_pipe_and_ddp", "T12_pipe_and_ddp_training"
WORDS = 50  # of the vocabulary here: the arithmetic is the same for any
BATCHIFY = "    def batchify", "        return data.to(device)"
GET_BATCH = "    bptt = 35", "        return data.t(), target"
EVALUATE = "    def evaluate", "        return total_loss"


def original(device: str = "cpu") -> dict:
    """The functions of the listing, on the CPU: a GPU is named in one place."""
    names: dict = {"torch": torch, "device": device, "vocab": range(WORDS)}
    names["criterion"] = torch.nn.CrossEntropyLoss()
    for part in (BATCHIFY, GET_BATCH, EVALUATE):
        text = dedent(listing(TEXT, *part)).replace("targets.cuda(2 * rank + 1)", "targets")
        exec(text, names)
    return names


def sources_of(name: str) -> dict[str, str]:
    cells = json.loads((CHAPTERS / f"{name}.ipynb").read_text("utf-8"))["cells"]
    return {cell["id"]: "".join(cell["source"]) for cell in cells}


def page(name: str, *cells: str) -> dict:
    """What these cells of the page define; without a rank, and without the corpus."""
    sources = sources_of(name)
    text = torch.arange(1000) % WORDS
    corpus = SimpleNamespace(vocab=range(WORDS), train=text, valid=text)
    corpus.common = lambda words: corpus
    names: dict = {"torch": torch, "math": math, "corpus": corpus, "rank": 1}  # rank 0 prints
    names["plots"] = SimpleNamespace(Table=lambda head, rows: None)
    for cell in cells:
        source = sources[cell].removeprefix("%%ranks\n")
        source = source.replace("from rankbook.data import wikitext2", "wikitext2 = lambda: corpus")
        exec(source, names)
    return names


def written(cell: str) -> dict:
    """The lists of numbers that a cell of the page starts with."""
    names: dict = {}
    source = sources_of(TRAINING)[cell]
    for line in re.findall(r"^[a-z_1, ]+ = \[[\d.,\s\]\[]+\]", source, re.MULTILINE):
        exec(line, names)
    return names


class Model:
    """What `Pipe` was to `evaluate`: tokens (batch, length) to logits, the batch first."""

    def __init__(self, predict):
        self.predict = predict

    def eval(self) -> None: ...

    def train(self) -> None: ...

    def parameters(self) -> list[torch.Tensor]:
        return []

    def __call__(self, tokens: torch.Tensor):
        logits = self.predict(tokens)
        return SimpleNamespace(local_value=lambda: logits)


def knows_nothing(tokens: torch.Tensor) -> torch.Tensor:
    return torch.zeros(*tokens.shape, WORDS)


def knows_what_follows(tokens: torch.Tensor) -> torch.Tensor:
    """For a text that counts: 50 nats for the next number, and 0 for all others."""
    return 50.0 * functional.one_hot((tokens + 1) % WORDS, WORDS)


@pytest.mark.parametrize("name", [DATA, TRAINING])
def test_the_pages_lay_the_text_out_as_the_listing_does(name):
    its, ours = original(), page(name, "batches" if name == TRAINING else "batchify")["batchify"]
    text = torch.arange(1234)
    columns = its["batchify"](text, 10, rank=0, world_size=2)
    assert torch.equal(ours(text, 10), columns)
    for rank in (0, 1):
        half = its["batchify"](text, 20, rank, 2, is_train=True)
        assert torch.equal(ours(text, 20, rank, 2), half)


@pytest.mark.parametrize("start", [0, 35, 95])
@pytest.mark.parametrize(
    ("name", "cells"), [(DATA, ("claim-order", "in-order")), (TRAINING, ("batches",))]
)
def test_the_re_created_batch_is_the_listing_s(name, cells, start):
    columns = torch.randint(WORDS, (100, 20), generator=torch.Generator().manual_seed(0))
    its = original()["get_batch"](columns, start)
    names = page(name, *cells)
    ours = names["get_batch"](columns, start)
    assert all(torch.equal(a, b) for a, b in zip(its, ours, strict=True))
    following = columns[start + 1 : start + 1 + its[0].shape[1]].T
    assert torch.equal(names["in_order"](*ours), following)


def test_a_perfect_model_is_as_good_as_none_to_the_listing():
    its = original()
    columns = its["batchify"](torch.arange(20_000) % WORDS, 10, 0, 2)
    # 348 of a batch's 350 predictions are compared with another token's target; as the text
    # counts to 50 again and again, some of those hold the right number by chance
    tokens, targets = its["get_batch"](columns, 0)
    logits = knows_what_follows(tokens).view(-1, WORDS)
    assert its["criterion"](logits, targets) > math.log(WORDS)
    in_order = columns[1:36].T.flatten()
    assert its["criterion"](logits, in_order) < 1e-6
    perfect = its["evaluate"](Model(knows_what_follows), columns)
    assert perfect > its["evaluate"](Model(knows_nothing), columns)


@pytest.mark.parametrize("name", ["VALID", "TEST"])
def test_the_re_created_evaluation_prints_what_the_listing_prints(name):
    ours = page(TRAINING, "claim-evaluation")
    tokens = ours[name]
    its = original()
    columns = its["batchify"](torch.zeros(tokens, dtype=torch.int64), 10, 0, 2)
    printed = its["evaluate"](Model(knows_nothing), columns)
    # both add up the same 50 losses, which are float32
    assert printed == pytest.approx(ours["as_printed"](math.log(WORDS), tokens), rel=1e-6)


def test_the_log_says_what_the_page_quotes():
    text = listing(TEXT, "[RANK 0]: | epoch   1", "脚本的总运行时间")
    ours = page(TRAINING, "claim-evaluation") | written("output-plot") | written("claim-eleven")
    both = r"RANK 0.*(?:valid|test) loss +([\d.]+) \| (?:valid|test) ppl +([\d.]+)"
    found = re.findall(both, text)
    quoted = [(loss, ppl) for _, loss, ppl, _ in ours["log"]]
    assert [(float(loss), float(ppl)) for loss, ppl in found] == quoted
    lines = sources_of(TRAINING)["output"].split("```")[1].splitlines()[1:]
    assert len(lines) == 7 and set(lines) <= set(text.splitlines())
    logged = re.findall(r"RANK 0.*batches.* loss +([\d.]+) \|", text)
    assert [float(x) for x in logged] == ours["logged"]
    other = re.findall(r"RANK 1.*batches.* loss +([\d.]+) \|", text)
    assert [float(x) for x in other] == ours["rank_1"]
    milliseconds = re.findall(r"RANK 0.*ms/batch +([\d.]+) \|", text)
    assert [float(x) for x in milliseconds[::4]] == ours["first"]
    assert [float(x) for x in milliseconds[1::4]] == ours["later"]


def test_the_second_page_repeats_the_model_of_the_first():
    first, second = sources_of(DATA), sources_of(TRAINING)
    for cell in ("positions", "model-source"):
        repeated = second[cell].removeprefix("%%ranks\n").replace("import torch\n", "")
        assert repeated == first[cell]


def test_a_first_line_divides_eleven_batches_by_ten():
    train = dedent(listing(TEXT, "    def train()", "                start_time"))
    lines: list[str] = []
    columns = torch.zeros(2000, 20, dtype=torch.int64)
    model = Model(lambda tokens: knows_nothing(tokens).requires_grad_())
    names = original() | {"math": math, "model": model, "train_data": columns, "epoch": 1}
    names["optimizer"] = SimpleNamespace(zero_grad=lambda: None, step=lambda: None)
    names["scheduler"] = SimpleNamespace(get_last_lr=lambda: [5.0])
    names["print_with_rank"] = lines.append
    exec("import time\n" + train.replace("targets.cuda(2 * rank + 1)", "targets"), names)
    names["train"]()
    losses = [float(re.findall(r"loss +([\d.]+)", line)[0]) for line in lines]
    alike = math.log(WORDS)  # of every batch; the lines have two digits
    assert losses == [pytest.approx(alike * n / 10, abs=0.006) for n in (11, 10, 10, 10)]


def test_the_recipe_that_the_page_s_table_names():
    path = ORIGINALS / TEXT
    if not path.exists():
        pytest.skip(f"the original's text {TEXT} is not beside this checkout")
    text = path.read_text("utf-8")
    for line in (
        "dropout = 0.2", "lr = 5.0", "StepLR(optimizer, 1.0, gamma=0.95)", "min(50 * bptt,",
        "epochs = 3", "best_model = model", "chunks = 8", "nn.Sequential(*tmp_list)",
        "clip_grad_norm_(model.parameters(), 0.5)",
        "TransformerEncoderLayer(emsize, nhead, nhid, dropout)",
    ):  # fmt: skip
        assert line in text, line
    assert "mask" not in text
