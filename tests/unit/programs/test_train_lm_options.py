"""Wrong options are one sentence; a batch is shared by all ranks."""

import sys

import pytest

from rankbook.programs.train_lm_trainer.model import load
from rankbook.programs.train_lm_trainer.options import deciding, read
from rankbook.programs.train_lm_trainer.run import check_same

FILE = "--train-file a.txt"


@pytest.mark.parametrize(
    ("line", "world_size", "share"),
    [("", 1, 16), ("", 4, 4), ("--batch 24 --accumulate 3", 2, 4), ("--batch 3", 3, 1)],
)
def test_the_batch_is_that_of_all_ranks(line, world_size, share):
    assert read(f"{FILE} {line}".split(), world_size).share == share


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "--train-file FILE is missing"),
        (f"{FILE} --batch 15", "--batch 15 cannot be shared by 2 ranks x --accumulate 1; use a"),
        (f"{FILE} --batch 8 --accumulate 3", "2 ranks x --accumulate 3; use a multiple of 6"),
        (f"{FILE} --length 1", "--length 1 leaves no token to predict"),
        (f"{FILE} --read first --workers 2", "--read first with --workers 2 would lose samples"),
        (f"{FILE} --resume", "--resume needs --checkpoint DIR"),
        (f"{FILE} --read second", "argument --read: invalid choice: 'second'"),
        (f"{FILE} --steps 0", "argument --steps: 0 is no whole number of 1 or more"),
        (f"{FILE} --workers -1", "argument --workers: -1 is no whole number of 0 or more"),
        (f"{FILE} --lr nan", "argument --lr: nan is no number above 0"),
        (f"{FILE} --learning-rate 1", "unrecognized arguments: --learning-rate 1"),
        ("--train a.txt", "unrecognized arguments: --train a.txt"),  # nothing is completed
    ],
)
def test_wrong_options_are_one_sentence(line, sentence):
    with pytest.raises(ValueError) as told:
        read(line.split(), 2)
    assert sentence in str(told.value) and "\n" not in str(told.value)


def test_files_that_differ_between_nodes_are_refused_on_every_rank():
    check_same([{"a.txt": 90, "b.txt": 5}] * 2)
    with pytest.raises(ValueError, match=r"a\.txt has 90 bytes on rank 0 and 70 on rank 2; copy"):
        check_same([{"a.txt": 90}, {"a.txt": 90}, {"a.txt": 70}])


def test_the_place_of_a_text_does_not_decide_and_its_bytes_do():
    def kept(line: str, size: int) -> dict:
        options = read(line.split(), 1)
        return deciding(options, {str(options.train_file): size})

    here, moved = (kept(f"--train-file {place}/a.txt", 90) for place in ("here", "there"))
    assert here == moved and here["train_file"] == "a.txt of 90 bytes"
    assert kept("--train-file here/a.txt", 91) != here
    assert kept("--train-file here/a.txt --log-every 1 --save-every 7", 90) == here
    assert kept("--train-file here/a.txt --steps 7", 90) != here  # the rate falls to 0 by then


@pytest.mark.parametrize("package", ["numpy", "transformers"])
def test_a_package_that_is_missing_is_said_with_its_cure(monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"Trainer needs the package {package}, .*pip install"):
        load(read(FILE.split(), 1))
