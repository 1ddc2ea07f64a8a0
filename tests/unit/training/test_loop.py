"""Learning rate and random numbers are functions of the step."""

import pytest
import torch

from rankbook.training import learning_rate, seed_step


def test_learning_rate():
    rates = [learning_rate(step, peak=2.0, warm_up=4) for step in range(16)]
    assert rates[:4] == [0.5, 1.0, 1.5, 2.0]
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert rates[15] == pytest.approx(1.0)  # four times the warm-up: half the peak


def test_seed_step():
    def draw(*where):
        seed_step(*where)
        return torch.rand(3).tolist()

    places = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)]
    drawn = [draw(*place) for place in places]
    assert drawn == [draw(*place) for place in places]
    assert len({tuple(numbers) for numbers in drawn}) == 4
