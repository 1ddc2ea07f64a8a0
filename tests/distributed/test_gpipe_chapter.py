"""What `T51_gpipe` says of the pipelining tutorial's model, of order, and of torch's scaling.

The tutorial's own listing runs in tests/originals/test_gpipe_tutorial.py.
"""

import json
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from originals import pipelining_tutorial
from originals.pipelining_tutorial import (
    ModelArgs,
    Transformer,
    manual_model_split,
    tokenwise_loss_fn,
)
from rankbook.models import TransformerLM, initialise
from tests.distributed.launch import run_ranks
from tests.distributed.pipeline_ranks import CONFIG, CPU
from tests.live.kernel import Notebook
from tests.live.report import fails, raised

VOCAB, WIDTH, LAYERS, LENGTH, BATCH = 50, 32, 8, 6, 8
MASK = nn.Transformer.generate_square_subsequent_mask(LENGTH)
BOTH = {"tgt_mask": MASK, "memory_mask": MASK}


PAGE = Path(__file__).parents[2] / "chapters" / "en" / "T51_gpipe.ipynb"


def off(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a - b).abs().max().item()


def tutorial(**options) -> Transformer:
    torch.manual_seed(0)
    return Transformer(ModelArgs(WIDTH, LAYERS, 4, VOCAB), dropout=0.0, **options)


def shown() -> dict:
    """What the page's own cells define: the tutorial's model, its split and its loss."""
    cells = {c["id"]: c["source"] for c in json.loads(PAGE.read_text("utf-8"))["cells"]}
    found = {"torch": torch, "__name__": "page"}
    for name, end in (("model-args", ""), ("model-source", ""), ("manual", "\nstage ="),
                      ("loss", "")):  # fmt: skip
        source = "".join(cells[name]).removeprefix("%%ranks\n")
        exec(source.partition(end)[0] if end else source, found)
    return found


@torch.no_grad()
def test_the_page_shows_the_program(monkeypatch):
    page = shown()
    page["PipelineStage"] = lambda model, *place: model
    monkeypatch.setattr(pipelining_tutorial, "PipelineStage", page["PipelineStage"])
    assert page["ModelArgs"]() == page["ModelArgs"](**vars(ModelArgs()))
    torch.manual_seed(0)
    theirs = page["Transformer"](page["ModelArgs"](WIDTH, LAYERS, 4, VOCAB), dropout=0.0)
    ours, x = tutorial(), words()
    assert theirs.state_dict().keys() == ours.state_dict().keys()
    y = ours(x)
    assert torch.equal(theirs(x), y)
    assert page["tokenwise_loss_fn"](y, x) == tokenwise_loss_fn(y, x)
    for index in (0, 1):
        pair = [split(tutorial(), index, 2, CPU).state_dict().keys()
                for split in (page["manual_model_split"], manual_model_split)]  # fmt: skip
        assert pair[0] == pair[1]


def words() -> torch.Tensor:
    return torch.randint(VOCAB, (BATCH, LENGTH), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def through_pipeline(options: dict, ones: bool) -> list[float]:
    """How far a pipeline of 1 and of 4 microbatches is from the uncut model, on rank 1."""
    x = torch.ones(BATCH, LENGTH, dtype=torch.int64) if ones else words()
    rank, whole = dist.get_rank(), tutorial(**options)
    differences = []
    for microbatches in (1, 4):
        stage = manual_model_split(tutorial(**options), rank, 2, CPU)
        output = ScheduleGPipe(stage, microbatches).step(*[x] * (rank == 0))
        differences.append(off(output, whole(x)) if rank == 1 else 0.0)
    return differences


def test_without_batch_first_the_pipeline_is_not_the_model(tmp_path):
    _, (one, four) = run_ranks(through_pipeline, tmp_path, 2, {}, False)
    assert one <= 1e-5 and four > 0.05


@pytest.mark.parametrize(("options", "ones"), [({"batch_first": True}, False), ({}, True)])
def test_with_it_or_on_equal_tokens_it_is(options, ones, tmp_path):
    _, differences = run_ranks(through_pipeline, tmp_path, 2, options, ones)
    assert max(differences) <= 1e-5


@torch.no_grad()
def seen(model: nn.Module) -> tuple[float, float]:
    """What another text changes in a text's output, and a later token at the first position."""
    x = words() % CONFIG.vocab_size
    other_text, later_token = x.clone(), x.clone()
    other_text[0] = (x[0] + 1) % VOCAB
    later_token[:, -1] = (x[:, -1] + 1) % VOCAB
    y = model(x)
    return off(model(other_text)[1:], y[1:]), off(model(later_token)[:, 0], y[:, 0])


def test_who_sees_what():
    texts, future = seen(tutorial())
    assert texts > 0.01 and future <= 1e-6
    texts, future = seen(tutorial(batch_first=True))
    assert texts <= 1e-5 and future > 0.01
    model = TransformerLM(CONFIG)
    initialise(model, 0)
    assert max(seen(model)) <= 1e-5


def hidden() -> torch.Tensor:
    return torch.randn(BATCH, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_a_decoder_layer_sees_the_future_through_its_memory():
    layer, h = tutorial(batch_first=True).layers["0"], hidden()
    later = h.clone()
    later[:, -1] += 1 + torch.arange(WIDTH) % 3
    for masks in ({}, {"tgt_mask": MASK}):
        assert off(layer(later, later, **masks)[:, 0], layer(h, h, **masks)[:, 0]) > 0.001
    assert off(layer(later, later, **BOTH)[:, 0], layer(h, h, **BOTH)[:, 0]) <= 1e-6


@torch.no_grad()
@pytest.mark.parametrize(
    ("depth", "masks", "sees_order"),
    [(1, {}, False), (2, {}, False), (8, {}, False), (1, BOTH, False), (2, BOTH, True),
     (8, BOTH, True)],
)  # fmt: skip
def test_only_causal_stacks_see_order(depth, masks, sees_order):
    layers = list(tutorial(batch_first=True).layers.values())[:depth]
    a = hidden()
    b = torch.cat([a[:, [3, 1, 0, 4, 2]], a[:, -1:]], dim=1)
    for layer in layers:
        a, b = layer(a, a, **masks), layer(b, b, **masks)
    moved = off(a[:, -1], b[:, -1])
    assert moved > 0.05 if sees_order else moved <= 1e-5


class Uncloned(Transformer):
    """Without the tutorial's `.clone()`: its output is a view."""

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        output, self.output = self.output, None
        h = super().forward(h)
        self.output = output
        return h if output is None else output(h)


def gradients_of(kind: type[Transformer]) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model, x = kind(ModelArgs(WIDTH, LAYERS, 4, VOCAB), dropout=0.0), words()
    assert model(x)._is_view() == (kind is Uncloned)
    stage = manual_model_split(model, dist.get_rank(), 2, CPU)
    schedule = ScheduleGPipe(stage, 4, loss_fn=tokenwise_loss_fn)
    schedule.step(*[x] * (dist.get_rank() == 0), target=x)
    return [p.grad for p in model.parameters()]


def test_an_output_that_is_a_view_is_no_trouble(tmp_path):
    folders = [tmp_path / name for name in ("with", "without")]
    for folder in folders:
        folder.mkdir()
    with_clone = run_ranks(gradients_of, folders[0], 2, Transformer)
    without = run_ranks(gradients_of, folders[1], 2, Uncloned)
    for theirs, ours in zip(with_clone, without, strict=True):
        assert all(torch.equal(p, q) for p, q in zip(theirs, ours, strict=True))


def three_steps_without_zero_grad() -> list[float]:
    torch.manual_seed(0)
    rank = dist.get_rank()
    part, h = nn.Linear(WIDTH, WIDTH), hidden()
    schedule = ScheduleGPipe(
        PipelineStage(part, rank, 2, CPU), 4, loss_fn=nn.functional.mse_loss
    )  # fmt: skip
    norms = []
    for _ in range(3):
        schedule.step(*[h] * (rank == 0), target=h)
        norms.append(part.weight.grad.norm().item())
    return norms


def test_gradients_of_earlier_steps_are_divided_again(tmp_path):
    """By torch's `scale_grads`: 1, 1 + 1/4, 1 + 1/4 + 1/16 times the gradient."""
    for first, second, third in run_ranks(three_steps_without_zero_grad, tmp_path, 2):
        assert second / first == pytest.approx(1 + 1 / 4, rel=1e-4)
        assert third / first == pytest.approx(1 + 1 / 4 + 1 / 16, rel=1e-4)


def test_the_rule_for_two_keeps_everything_on_other_stages(monkeypatch):
    monkeypatch.setattr(pipelining_tutorial, "PipelineStage", lambda model, *place: model)
    stages = [manual_model_split(tutorial(), index, 4, CPU) for index in range(4)]
    kept = [sorted(map(int, stage.layers)) for stage in stages]
    assert kept == [[*range(4)], [*range(4, 8)], [*range(LAYERS)], [*range(LAYERS)]]


FOUR = """%%ranks
from torch.distributed.pipelining import ScheduleGPipe
from originals.pipelining_tutorial import ModelArgs, Transformer, manual_model_split

stage = manual_model_split(Transformer(ModelArgs(32, 8, 4, 50)), rank, world_size, device)
x = torch.ones(8, 6, dtype=torch.int64)
ScheduleGPipe(stage, 4).step(*[x] * (rank == 0))
"""


def test_four_ranks_that_all_take_the_step():
    with Notebook() as notebook:
        assert not notebook.run("%load_ext rankbook\n%ranks start -n 4 --backend gloo").error
        result = notebook.run(FOUR)
    assert result.error.startswith(fails(raised(2, "RuntimeError")))
    assert "Expected tensor for argument #1 'indices'" in result.error
    assert "imed out" not in result.error
