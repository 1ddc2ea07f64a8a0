"""When replicas meet, as the command line says it."""

import pytest

from rankbook.programs.resuming import check_same
from rankbook.programs.train_lm.options import read
from rankbook.programs.train_lm.syncing import parse, resume_invariants


@pytest.mark.parametrize(
    ("line", "way", "outer"),
    [
        ("", None, (None, None)),
        ("--sync every", None, (None, None)),
        ("--sync local:20", ("local", 20), (None, None)),
        ("--sync diloco:100", ("diloco", 100), (0.7, 0.9)),
        ("--sync diloco:100 --outer-lr 1 --outer-momentum 0", ("diloco", 100), (1.0, 0.0)),
        ("--sync diloco:5 --mesh pp=2,dp=2", ("diloco", 5), (0.7, 0.9)),
        ("--sync local:1 --mesh dp=2,cp=2", ("local", 1), (None, None)),
    ],
)
def test_a_way_to_meet(line, way, outer):
    options = read(line.split(), 4)
    assert parse(options.sync) == way
    assert (options.outer_lr, options.outer_momentum) == outer


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--sync diloco", "--sync diloco is no way to meet; use every, local:H or diloco:H"),
        ("--sync diloco:0", "--sync diloco:0 is no way to meet"),
        ("--sync gossip:5", "--sync gossip:5 is no way to meet"),
        ("--sync local:5 --outer-lr 1", "--outer-lr is of DiLoCo's outer step, and --sync local:5"),
        ("--outer-momentum 0.5", "--outer-momentum is of DiLoCo's outer step, and --sync every"),
        ("--sync diloco:5 --outer-momentum 1", "1 is no number from 0 to below 1"),
        ("--sync diloco:5 --shard fsdp", "and --shard has them share one copy of the parameters"),
        ("--sync diloco:5 --mesh dp=2,ep=2", "and experts are balanced over all ranks in every"),
    ],
)
def test_what_cannot_be_is_one_sentence(line, sentence):
    with pytest.raises(ValueError) as caught:
        read(line.split(), 4)
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


def test_a_run_goes_on_as_it_was_begun(tmp_path):
    begun = resume_invariants(read(["--sync", "diloco:4"], 2))
    check_same(begun, begun, tmp_path)
    with pytest.raises(ValueError, match=r"--sync is diloco:8, but the run in .* has diloco:4"):
        check_same(resume_invariants(read(["--sync", "diloco:8"], 2)), begun, tmp_path)
    with pytest.raises(ValueError, match=r"--outer-lr is 0.5, but the run in .* has 0.7"):
        other = read(["--sync", "diloco:4", "--outer-lr", "0.5"], 2)
        check_same(resume_invariants(other), begun, tmp_path)


def test_runs_of_before_there_was_the_option_met_in_every_step(tmp_path):
    check_same(resume_invariants(read([], 2)), {}, tmp_path)
    with pytest.raises(ValueError, match=r"--sync is local:4, but the run in .* has every"):
        check_same(resume_invariants(read(["--sync", "local:4"], 2)), {}, tmp_path)
