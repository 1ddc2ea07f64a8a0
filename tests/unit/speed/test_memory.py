"""Memory per rank by the formula and by measurement, scaling, and what the global batch changes."""

import importlib
import inspect
import subprocess
import sys

import pytest
import torch
from torch import nn

from rankbook.speed import make_batch, size, strategies, synthetic
from rankbook.speed.init_model import init_model
from rankbook.speed.strategies import STRATEGIES, prepare
from rankbook.speed.strategies.memory import Bytes, formula, measured
from rankbook.speed.strategies.registry import REGISTRY
from rankbook.speed.strategies.scaling import efficiency, speed_up, steps_per_epoch
from rankbook.speed.strategies.strategy import storages

SMALL = size(
    "cpu", layers=1, d_model=32, d_hidden=64, vocab_size=200, max_length=32, samples=96, lr=1e-3
)


def test_the_formula_by_hand():
    assert formula("ddp", 100, 4) == Bytes(400, 400, 800)
    assert formula("zero1", 100, 4) == Bytes(400, 400, 200)
    assert formula("fsdp2", 100, 4) == Bytes(100, 100, 200)
    assert formula("deepspeed2", 100, 4) == Bytes(400, 100, 300)
    assert formula("deepspeed3", 100, 4).total == 100 + 100 + 300
    with pytest.raises(ValueError, match="strategy 'fsdp' is unknown; use alone, ddp"):
        formula("fsdp", 100, 4)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_rank_saves_nothing(strategy):
    """Whatever is cut over one rank is whole; every strategy is in the formula."""
    one = formula(strategy, 100, 1)
    copy = 400 if strategy.startswith("deepspeed") else 0
    assert one == Bytes(400, 400, 800 + copy)
    assert formula(strategy, 100, 2).total <= one.total


def test_a_storage_counts_once():
    whole = torch.zeros(10)
    assert sum(storages([whole[:3], whole[5:], None, whole.view(2, 5)]).values()) == 40


def test_one_process_keeps_16_bytes_a_parameter():
    model, _ = init_model(SMALL)
    trained = prepare("alone", model, lr=1e-3)
    batch = make_batch(synthetic(8, SMALL), list(range(8)), "packed")
    before = measured(trained)
    trained.step(batch)
    parameters = sum(p.numel() for p in model.parameters())
    assert before == Bytes(4 * parameters, 0, 0)
    assert measured(trained) == formula("alone", parameters, 1)


def test_a_gradient_that_is_counted_elsewhere_is_not_counted_twice():
    class Shared:
        def held(self):
            model = nn.Linear(4, 1)
            one = storages([model.weight])
            return {"parameters": one, "gradients": one, "state": {}, "buffers": one}

    assert measured(Shared()) == Bytes(16, 0, 0, 0)


def test_the_efficiency_of_four_gpus():
    four = efficiency(8.25, 3.07, 4)  # minutes of the post on faster fine-tuning
    assert four == pytest.approx(0.672, abs=5e-4)
    assert speed_up(8.25, 3.07) == pytest.approx(4 * four)
    with pytest.raises(ValueError, match="times must be positive, not 0 and 1"):
        efficiency(0, 1, 2)
    with pytest.raises(ValueError, match="1 rank or more, not 0"):
        efficiency(1, 1, 0)


def test_steps_of_an_epoch():
    assert steps_per_epoch(35_000, 12, drop_last=True) == 2916
    assert steps_per_epoch(35_000, 12, ranks=4, drop_last=True) == 729
    assert steps_per_epoch(35_000, 12) == 2917


def test_an_unknown_strategy_is_one_sentence():
    with pytest.raises(ValueError, match="strategy 'fsdp' is unknown; use alone, ddp, ddp-bf16"):
        prepare("fsdp", nn.Linear(1, 1))
    with pytest.raises(ValueError, match="no ZeRO stage 4; use 1, 2 or 3"):
        prepare("deepspeed2", nn.Linear(1, 1), stage=4)
    with pytest.raises(ValueError, match="compress 'fp8' is unknown; use None or 'bf16'"):
        prepare("ddp", nn.Linear(1, 1), compress="fp8")


@pytest.mark.parametrize("name", REGISTRY)
def test_an_entry_is_all_that_a_strategy_needs(name):
    """Its file takes its settings, and what it cuts is a stage that the formula knows."""
    entry = REGISTRY[name]
    file = importlib.import_module(f"{strategies.__name__}.{entry.file}")
    inspect.signature(file.prepare).bind(nn.Linear(1, 1), 1e-3, "cpu", **entry.settings)
    assert entry.zero in range(4)
    assert strategies.STRATEGIES[name] == entry.about


@pytest.mark.slow
def test_no_strategy_and_no_library_is_loaded_before_it_is_asked_for():
    """Not by the list of the strategies, nor by their formula: only by `prepare`."""
    code = (
        "import sys; from rankbook.speed.strategies import STRATEGIES; "
        "from rankbook.speed.strategies.memory import formula; "
        "print([formula(name, 1, 1) and name for name in STRATEGIES]); "
        "print([m for m in sys.modules if m.split('.')[0] in ('deepspeed', 'lightning') or "
        "m.startswith(('rankbook.speed.strategies.fsdp2', 'rankbook.speed.strategies.zero1'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(list(REGISTRY)), "[]"]
