"""Two recipes on one test set: their accuracies belong together, review by review.

A review that both get wrong says nothing about the difference, so errors of independent samples
would be far too wide. Source: Q. McNemar, https://doi.org/10.1007/BF02295996, for one training
of each; more seeds add the spread between trainings.
"""

import math
from dataclasses import dataclass

from torch import Tensor

# Student's t at 97.5 % for so many degrees of freedom; for more, the normal distribution's 1.96
_T = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}


@dataclass(frozen=True)
class Paired:
    """The accuracies `first` and `second`, from 0 to 1, means over the seeds.

    `difference` is second - first, and `margin` half the width of its 95 % interval. `reviews` and
    `seeds`: the standard errors that the choice of test reviews, and that of seeds, contributes
    (the latter NaN for one seed, and then not part of the margin). `disagree`: the share of answers
    that differ.
    """

    first: float
    second: float
    margin: float
    reviews: float
    seeds: float
    disagree: float

    @property
    def difference(self) -> float:
        """How much more accurate the second is."""
        return self.second - self.first

    @property
    def tells(self) -> bool:
        """Whether the difference is larger than chance explains, at 95 %."""
        return abs(self.difference) > self.margin


def compare(first: Tensor, second: Tensor) -> Paired:
    """Compare two recipes by which test reviews they got right.

    first, second: bool (seeds, reviews), or (reviews,) for one seed; True where the answer is
    right. The same reviews in the same order, and the same seeds. The margin adds the variances
    of both causes, which counts what they share twice: it is rather too wide than too narrow.
    Raises ValueError for other shapes, or fewer than two reviews.
    """
    if first.shape != second.shape or first.dim() not in (1, 2) or first.shape[-1] < 2:
        raise ValueError(
            f"the answers have the shapes {tuple(first.shape)} and {tuple(second.shape)}; both "
            "must be (seeds, reviews), of the same two reviews or more"
        )
    a, b = (right.double().reshape(-1, right.shape[-1]) for right in (first, second))
    change = b - a
    count, reviews = change.shape
    by_review = (change.mean(0).var() / reviews).sqrt().item()
    by_seed = (change.mean(1).var() / count).sqrt().item() if count > 1 else math.nan
    t = _T.get(count - 1, 1.96)
    margin = math.hypot(1.96 * by_review, t * by_seed if count > 1 else 0.0)
    disagree = (change != 0).double().mean().item()
    return Paired(a.mean().item(), b.mean().item(), margin, by_review, by_seed, disagree)
