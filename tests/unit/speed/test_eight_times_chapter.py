"""What `T33_eight_times` and `T34_accuracies` claim, where the listings are not at hand."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from originals.faster_numbers import text_row
from originals.faster_text import WithLoss, fabric_program, padded, plain_program
from plots import break_even_steps
from rankbook.models import Classifier
from rankbook.speed import size, synthetic
from rankbook.speed.compiling import graphs
from rankbook.speed.paired import compare
from rankbook.speed.strategies.scaling import efficiency, weak_efficiency

PAGE = Path(__file__).parents[3] / "chapters" / "en" / "T34_accuracies.ipynb"
SMALL = size("cpu", vocab_size=60, layers=1, d_model=16, d_hidden=32, heads=2, max_length=32)


def functions(*cells: str, **names) -> dict:
    """The functions that these cells of the page define."""
    sources = {c["id"]: "".join(c["source"]) for c in json.loads(PAGE.read_text("utf-8"))["cells"]}
    for cell in cells:
        parts = sources[cell].split("\n\n")
        defined = [part for part in parts if part.startswith(("def ", "from torch"))]
        exec("\n\n".join(part.split("\nfor ")[0] for part in defined), names)
    return names


def modes(program, **options) -> list[bool]:
    seen: list[bool] = []

    def make() -> nn.Module:
        model = WithLoss(Classifier(SMALL.model).initialise(seed=0))
        model.register_forward_pre_hook(lambda module, _: seen.append(module.training))
        return model

    counts = {"train": 40, "validation": 12, "test": 12}
    splits = {name: synthetic(count, SMALL) for name, count in counts.items()}
    program(make, splits, epochs=2, workers=0, **options)
    return seen


def test_dropout_is_on_in_every_step_of_the_loop():
    pytest.importorskip("torchmetrics")
    assert modes(plain_program) == [True, True, True, False] * 2 + [False]


def test_with_fabric_dropout_is_on_in_the_first_step_of_an_epoch():
    lightning = pytest.importorskip("lightning")
    found = modes(fabric_program, fabric=lambda: lightning.Fabric(accelerator="cpu", devices=1))
    assert found == [True, False, False, False] * 2 + [False]


def test_all_reviews_of_a_split_are_as_long_as_its_longest():
    reviews = synthetic(20, SMALL)
    rows = padded(reviews)
    assert {len(row["input_ids"]) for row in rows} == {int(reviews.lengths.max())}
    masks = torch.stack([row["attention_mask"] for row in rows])
    assert torch.equal(masks.sum(1), reviews.lengths)


@pytest.mark.parametrize(("gpus", "validation", "test"), [(1, 8, 4), (4, 8, 16)])
def test_reviews_that_no_gpu_tests(gpus, validation, test):
    dropped = functions("claim-drop")["dropped"]
    assert (dropped(5_000, gpus), dropped(10_000, gpus)) == (validation, test)


def test_the_paired_error_lies_between_the_bounds():
    error_range = functions("claim-bounds", sqrt=lambda x: x**0.5)["error_range"]
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.rand(2000, generator=generator) < p for p in (0.9, 0.92))
    low, high = error_range(first.double().mean().item(), second.double().mean().item(), 2000)
    assert low < compare(first, second).reviews < high


def test_a_warm_up_in_another_format_compiles_another_graph():
    torch.compiler.reset()
    network, x = nn.Linear(8, 2), torch.randn(12, 8)
    compiled, start = torch.compile(network, backend="eager"), graphs()
    compiled(x)
    assert graphs() - start == 1
    with torch.autocast("cpu", torch.bfloat16):
        compiled(x).sum().backward()
    assert graphs() - start == 2


def test_on_four_gpus_a_step_and_a_review_have_the_same_efficiency():
    one, four = text_row("16 bits"), text_row("DDP")
    assert one.steps == 4 * four.steps and four.batch == 4 * one.batch
    each = weak_efficiency(one.minutes / one.steps, four.minutes / four.steps)
    assert each == pytest.approx(efficiency(one.minutes, four.minutes, 4))
    assert round(each, 2) == 0.67


def test_the_break_even_of_the_post_hangs_on_a_price_that_nobody_measured():
    eager, clock = (60 * text_row(name).minutes for name in ("16 bits", "compile"))
    evens = {price: break_even_steps((0, eager / 3), (price, (clock - price) / 3))
             for price in (clock - eager - 1, 30, 60, 170)}  # fmt: skip
    never, *others = evens.values()
    assert never is None and all(even is not None and even > 3 for even in others)
    assert max(others) > 1.4 * min(others)


def test_lightning_refuses_the_word_of_the_repost():
    lightning = pytest.importorskip("lightning")
    with pytest.raises(ValueError, match="Precision 'fp16' is invalid"):
        lightning.Trainer(precision="fp16", accelerator="cpu", logger=False)
