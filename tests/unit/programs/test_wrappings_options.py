"""The options of wrappings: which trials a line asks for, and what it cannot mean."""

import pytest

from rankbook.parallel.pipeline import schedule_names
from rankbook.parallel.trials import WRAPPINGS
from rankbook.programs.wrappings.options import read


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def test_everything_is_tried_if_nothing_is_named():
    options = read([])
    trials = options.trials()
    assert len(trials) == len(set(trials)) == 3 * len(schedule_names()) * len(WRAPPINGS)
    assert trials[0] == ("gpipe", "all_reduce after step", 2) and not options.json


def test_what_is_named_is_tried_with_each_other():
    line = ["--schedule", "zbv", "1f1b", "--wrapping", "DDP", "--microbatches", "4", "6", "--json"]
    options = read(line)
    assert options.json
    assert options.trials() == [
        *(("zbv", "DDP", 4), ("1f1b", "DDP", 4)),
        *(("zbv", "DDP", 6), ("1f1b", "DDP", 6)),
    ]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (["--schedule", "zbx"], "argument --schedule: invalid choice: 'zbx' (choose from"),
        (["--wrapping", "FSDP"], "argument --wrapping: invalid choice: 'FSDP' (choose from"),
        (["--microbatches", "0"], "argument --microbatches: 0 is no whole number of 1 or more"),
        (["--micro", "4"], "unrecognized arguments: --micro 4"),
    ],
)
def test_wrong_options_are_one_sentence(line, sentence):
    with pytest.raises(ValueError) as error:
        read(line)
    assert str(error.value).startswith(sentence) and "\n" not in str(error.value)


def test_under_torchrun_there_would_be_sixteen_ranks(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ValueError, match="starts its four ranks itself"):
        read([])
