"""What failures and saving cost: the formula against failures that are drawn."""

import pytest

from rankbook.predict import cost_model

CASES = [  # save, period, mtbf, restart, delay
    (5, 100, 1000, 30, 0),
    (0.1, 25, 3600, 34, 10),
    (2, 60, 600, 40, 50),
]


@pytest.mark.parametrize("case", CASES)
def test_the_formula_is_what_drawn_failures_cost(case):
    found, error = cost_model.simulated_loss(*case, failures=40_000)
    assert abs(cost_model.lost_share(*case) - found) < 4 * error


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("left_out", [3, 4])
def test_a_formula_that_leaves_something_out_is_caught(case, left_out):
    if not case[left_out]:
        pytest.skip("there is nothing to leave out")
    found, error = cost_model.simulated_loss(*case, failures=40_000)
    less = [0 if place == left_out else value for place, value in enumerate(case)]
    assert abs(cost_model.lost_share(*less) - found) > 4 * error


def test_a_delay_costs_what_a_longer_restart_costs_and_leaves_the_best_period():
    assert cost_model.lost_share(1, 50, 900, 30, 20) == cost_model.lost_share(1, 50, 900, 50)
    for period in (0.8, 1.25):
        best = cost_model.best_period(1, 1e4)
        assert cost_model.lost_share(1, best, 1e4, 30, 20) < cost_model.lost_share(
            1, period * best, 1e4, 30, 20
        )


@pytest.mark.parametrize("case", CASES)
def test_the_parts_of_the_loss_are_all_of_it(case):
    parts = cost_model.lost_parts(*case)
    assert parts.share == pytest.approx(cost_model.lost_share(*case))
    assert min(parts.saves, parts.again, parts.restarts) > 0


def test_each_part_of_the_loss_follows_its_cause():
    seldom = cost_model.lost_parts(5, 100, 1e9, 30)
    assert seldom.saves == 5 / 105 and seldom.again < 1e-6 and seldom.restarts < 1e-6
    # half a period, and the save that ends it, is done again, once in mtbf seconds; to first order
    often = cost_model.lost_parts(5, 100, 1e5, 30)
    assert often.again == pytest.approx(105 / 2 / 1e5 * 100 / 105, rel=0.01)
    assert often.restarts == pytest.approx(30 / 1e5 * 100 / 105, rel=0.01)


@pytest.mark.parametrize(("save", "mtbf"), [(0.05, 3e6), (5, 1e4), (600, 600), (600, 1e4)])
def test_the_exact_best_period_is_the_best_one(save, mtbf):
    best = cost_model.exact_best_period(save, mtbf)
    least = cost_model.lost_share(save, best, mtbf, 30)
    assert all(least < cost_model.lost_share(save, f * best, mtbf, 30) for f in (0.98, 1.02))
    young = cost_model.best_period(save, mtbf)
    assert cost_model.lost_share(save, young, mtbf, 30) >= least
    if save < mtbf / 1000:
        assert young == pytest.approx(best, rel=0.02)
