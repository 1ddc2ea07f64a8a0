"""What makes Python wait for a GPU: found by torch's own marks, without one."""

import pytest
import torch

from rankbook.speed.waits import waits

X = torch.tensor([0, 1, 1])


@pytest.mark.parametrize(
    ("work", "count"),
    [
        (lambda: (X == X).sum(), 0),
        (lambda: X.sum().item(), 1),
        (lambda: bool(X.any()), 1),
        (lambda: X[X > 0], 1),
        (lambda: torch.unique(X), 1),
        (lambda: torch.where(X > 0, X, -X), 0),
    ],
)
def test_results_that_python_has_to_see(work, count):
    assert len(waits(work)) == count


@pytest.mark.parametrize(("check", "count"), [(True, 2), (False, 0)])
def test_torchmetrics_waits_only_for_its_checks(check, count):
    torchmetrics = pytest.importorskip("torchmetrics")
    seen = torchmetrics.Accuracy(task="multiclass", num_classes=2, validate_args=check)
    assert len(waits(lambda: seen.update(X, X))) == count
    assert len(waits(lambda: seen(X, X))) == count  # as a LightningModule calls it
