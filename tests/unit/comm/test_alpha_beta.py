"""The alpha-beta line: found again in data that was made with it, and not bent by outliers."""

import pytest
import torch

from rankbook.comm.all_reduce import fit_alpha_beta

SIZES = torch.tensor([2**k for k in range(3, 25)])


@pytest.mark.parametrize(("alpha", "beta"), [(4e-4, 2e-9), (1e-5, 1e-11), (5e-2, 1e-8)])
def test_exact_data(alpha, beta):
    found = fit_alpha_beta(SIZES, alpha + beta * SIZES)
    assert found == pytest.approx((alpha, beta), rel=1e-3)


def test_a_few_sizes_off_the_line():
    seconds = 4e-4 + 2e-9 * SIZES
    seconds[[2, 9, 17]] *= torch.tensor([8.0, 3.0, 0.3])
    assert fit_alpha_beta(SIZES, seconds) == pytest.approx((4e-4, 2e-9), rel=0.05)


def test_noise():
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(len(SIZES), generator=generator).mul(0.1).exp()
    found = fit_alpha_beta(SIZES, (4e-4 + 2e-9 * SIZES) * noise)
    assert found == pytest.approx((4e-4, 2e-9), rel=0.15)


def test_neither_is_negative():
    alpha, beta = fit_alpha_beta(SIZES, 1e-9 * SIZES.double())
    assert alpha >= 0 and beta == pytest.approx(1e-9, rel=1e-3)
    alpha, beta = fit_alpha_beta(SIZES, 1e-4 / (1 + SIZES / 2**20))  # faster when larger
    assert alpha > 0 and beta == 0
