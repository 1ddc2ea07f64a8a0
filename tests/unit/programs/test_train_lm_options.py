"""Wrong options are one sentence; a batch is shared by all ranks."""

import pytest

from rankbook.programs.train_lm_options import read
from rankbook.programs.train_lm_trainer import check_same

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
