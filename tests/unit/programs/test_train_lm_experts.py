"""The options of a model with experts: what is meant where little is said, and what cannot be."""

from pathlib import Path

import pytest

from rankbook.parallel.mesh import Layout
from rankbook.programs.resuming import check_same
from rankbook.programs.train_lm.mixture import RATE, WEIGHT, in_config, mixture_invariants
from rankbook.programs.train_lm.options import parser, read
from rankbook.programs.train_lm.training_options import resume_invariants


def found(line: str, ranks: int) -> tuple:
    options = read(line.split(), ranks)
    return options.experts, options.top_k, options.capacity, options.balance


@pytest.mark.parametrize(
    ("line", "ranks", "mixture"),
    [
        ("", 2, (0, None, None, None)),
        ("--mesh dp=2", 2, (0, None, None, None)),
        ("--mesh ep=2", 2, (8, 2, None, "bias")),
        ("--mesh ep=1", 1, (8, 2, None, "bias")),
        ("--mesh dp=2,ep=1", 2, (8, 2, None, "bias")),
        ("--experts 8", 2, (8, 2, None, "bias")),
        ("--mesh ep=4 --experts 16 --top-k 1", 4, (16, 1, None, "bias")),
        ("--mesh dp=1 --experts 1", 1, (1, 1, None, "bias")),
        ("--mesh dp=2,ep=2 --capacity 1.25 --balance loss", 4, (8, 2, 1.25, "loss")),
        ("--mesh pp=2,ep=2 --balance none", 4, (8, 2, None, "none")),
    ],
)
def test_a_mesh_with_ep_means_experts(line, ranks, mixture):
    assert found(line, ranks) == mixture


def test_a_mesh_is_read_with_ep():
    options = read(["--mesh", "pp=2,dp=2,ep=2"], 8)
    assert options.layout == Layout(pp=2, dp=2, ep=2) and options.layout.replicas == 4


@pytest.mark.parametrize(
    ("line", "ranks", "sentence"),
    [
        ("--top-k 1", 2, "--top-k is of experts, and this model has none; add --experts 8, or"),
        ("--capacity 1.5", 2, "--capacity is of experts, and this model has none"),
        ("--balance bias", 2, "--balance is of experts, and this model has none"),
        ("--experts 0", 2, "argument --experts: 0 is no whole number of 1 or more"),
        ("--mesh ep=2 --top-k 9", 2, "top_k is 9, and there are 8 experts; use 1 to 8"),
        ("--mesh ep=2 --capacity 0", 2, "argument --capacity: 0 is no number above 0"),
        ("--mesh ep=3 --batch 33", 3, "ep=3 cannot hold equally many of 8 experts; use a number"),
        (
            "--mesh dp=4,ep=4 --shard fsdp", 16,
            "ep=4 x 4 that share a copy cannot hold equally many of 8 experts; use a number of",
        ),
        ("--mesh ep=2,tp=2 --capacity 1", 4, "capacity is counted over whole sequences, and the"),
        ("--mesh ep=2,cp=2 --capacity 1", 4, "capacity is counted over whole sequences, and the"),
        ("--mesh ep=2 --compile", 2, "--compile does not go with experts: how many tokens each"),
        (
            "--mesh pp=2,ep=2 --balance loss", 4,
            "--balance loss counts the tokens of the whole batch, and a layer sees one microbatch "
            "after the other, of 4; use --balance bias or none",
        ),
        ("--mesh ep=2 --batch 33", 2, "a batch of 33 is not divisible by 2 replicas"),
    ],
)  # fmt: skip
def test_one_that_cannot_be_is_one_sentence(line, ranks, sentence):
    with pytest.raises(ValueError) as told:
        read(line.split(), ranks)
    assert sentence in str(told.value) and "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("balance", "weight", "rate"), [("none", 0, 0), ("loss", WEIGHT, 0), ("bias", 0, RATE)]
)
def test_the_model_is_told_what_balances_it(balance, weight, rate):
    told = in_config(read(f"--mesh ep=2 --balance {balance}".split(), 2))
    assert (told["balance_weight"], told["bias_rate"]) == (weight, rate)
    assert in_config(read([], 2)) == {}


def test_a_run_keeps_its_experts_and_one_without_goes_on_as_before():
    mine = mixture_invariants(read(["--mesh", "ep=2"], 2))
    other = mixture_invariants(read(["--mesh", "dp=4", "--experts", "8"], 4))
    check_same(other, mine, Path("runs/a"))
    without = read([], 2)
    check_same(
        mixture_invariants(without), resume_invariants(without), Path("runs/a")
    )  # an older run's
    with pytest.raises(ValueError, match="--experts is not given, but the run in runs/a has 8"):
        check_same(mixture_invariants(without), mine, Path("runs/a"))
    with pytest.raises(ValueError, match="--top-k is 1, but the run in runs/a has 2"):
        check_same(
            mixture_invariants(read(["--mesh", "ep=2", "--top-k", "1"], 2)), mine, Path("runs/a")
        )


def test_the_help_says_what_is_taken_where_nothing_is_said():
    said = " ".join(parser().format_help().split())
    assert "(8 if --mesh has ep, otherwise none)" in said and "{none,loss,bias}" in said
