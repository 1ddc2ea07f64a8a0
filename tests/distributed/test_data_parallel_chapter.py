"""What the page on data parallelism says of torch: when one fails, its sentence has to go."""

import pytest

from tests.distributed.data_parallel_ranks import MIB, recorded, steps
from tests.distributed.launch import run_ranks

ROUNDING = 1e-6  # of one step, in float32


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What each of two ranks found out about steps."""
    return run_ranks(steps, tmp_path_factory.mktemp("steps"), 2)


@pytest.mark.parametrize("name", ["by hand", "DDP"])
def test_averaged_gradients_train_as_one_process(found, name):
    for rank in found:
        apart, off, _ = rank["trainings"][name]
        assert apart == 0 and off < 1e-5


def test_in_float64_the_difference_all_but_vanishes(found):
    for rank in found:
        assert rank["trainings"]["float64"] < 1e-13


def test_three_mistakes_that_raise_nothing(found):
    for rank in found:
        assert min(rank["trainings"]["alone"][:2]) > 0.01
        assert min(rank["trainings"]["other start"][:2]) > 0.01
        apart, off, _ = rank["trainings"]["only summed"]
        assert apart == 0 and off > 0.01


def test_the_lowest_loss_belongs_to_a_wrong_run(found):
    for rank in found:
        losses = {name: rank["trainings"][name][2] for name in ("by hand", "only summed")}
        assert losses["only summed"] < 0.6 * losses["by hand"]


def test_only_summed_is_a_training_with_a_multiple_of_the_learning_rate(found):
    for rank in found:
        assert rank["trainings"]["only summed, from twice the rate"] < 1e-5
        assert not rank["trainings"]["eight times"] < 1e3


def test_replicas_of_other_starts_never_come_closer(found):
    for rank in found:
        gaps = rank["trainings"]["gaps"]
        assert min(gaps) > 0.1 and max(gaps) - min(gaps) < ROUNDING


def test_who_calls_the_module_trains_alone(found):
    assert all(rank["trainings"]["module is alone"] for rank in found)


def test_ddp_knows_only_what_required_a_gradient_when_it_was_made(found):
    for rank in found:
        first_weight, first_bias, *last = rank["unfrozen"]
        assert min(first_weight, first_bias) > 0.01 and last == [0, 0]
        assert rank["wrapped again"] == [0, 0, 0, 0]


def test_adam_hides_the_forgotten_division(found):
    for rank in found:
        off = rank["trainings"]["Adam, only summed"][1]
        assert off < rank["trainings"]["only summed"][1] / 10


def test_shares_have_to_be_equal_and_the_loss_a_mean(found):
    for rank in found:
        shares = rank["shares"]
        assert shares["mean"] > 1e-3 and shares["weighted"] < ROUNDING
        assert shares["sum"] > 0.1 and shares["sum, times 2"] < 1e-5


def test_batch_norm_sees_the_ranks_own_rows_and_layer_norm_one_row(found):
    for rank in found:
        off, after_a_step, after_the_next_forward = rank["BatchNorm"]
        assert off > 0.01 and after_a_step > 0.01 and after_the_next_forward == 0
        assert rank["LayerNorm"][0] < ROUNDING


def test_sync_batch_norm_refuses_the_cpu(found):
    for rank in found:
        assert "expected input tensor to be on GPU" in rank["SyncBatchNorm"]


def test_an_unused_parameter_passes_one_step_and_fails_in_the_next(found):
    for rank in found:
        apart, error = rank["unused"]
        assert apart > 1e-3
        assert error.startswith("Expected to have finished reduction in the prior iteration")
        assert rank["find_unused"] == (0, "")


# the limit, and how many of the four layers of 1 MiB are in each bucket after the first pass
@pytest.mark.parametrize(("limit", "sizes"), [(None, [1, 3]), (25, [4]), (2, [2, 2]), (1, [1] * 4)])
def test_recorded_passes(tmp_path, limit, sizes):
    """In the first pass one bucket; after it as many as fit; nothing is changed by recording."""
    ranks = run_ranks(recorded, tmp_path, 2, limit)
    assert ranks[0]["passes"] == ranks[1]["passes"]
    for r, rank in enumerate(ranks):
        assert rank["equal"]
        assert rank["own"] == rank["passes"][0][r]
        none, second_hook = rank["errors"]
        assert none.startswith("ValueError: backward pass 3 was not recorded, only 3 were")
        assert second_hook.startswith("RuntimeError: ") and "comm_hook" in second_hook
    for number, of_ranks in enumerate(ranks[0]["passes"]):
        assert [each["rank"] for each in of_ranks] == [0, 1]
        for each in of_ranks:
            check_pass(each, [4] if number == 0 else sizes)


def check_pass(each: dict, sizes: list[int]) -> None:
    """Four gradients from the last layer to the first, each in one bucket, in this order."""
    names = [name for name, _, _ in each["gradients"]]
    assert names == [f"{layer}.weight" for layer in (3, 2, 1, 0)]
    assert [nbytes for _, nbytes, _ in each["gradients"]] == [MIB] * 4
    ready = {name: time for name, _, time in each["gradients"]}
    assert [index for index, *_ in each["buckets"]] == list(range(len(sizes)))
    assert sorted(name for _, inside, *_ in each["buckets"] for name in inside) == sorted(names)
    for size, (_, inside, nbytes, start, end) in zip(sizes, each["buckets"], strict=True):
        assert nbytes == MIB * size == MIB * len(inside)
        assert max(ready[name] for name in inside) <= start < end
    assert each["start"] < min(ready.values()) and max(ready.values()) < each["end"]
