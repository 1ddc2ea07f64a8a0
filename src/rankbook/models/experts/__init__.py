"""Mixture of experts: a router sends each token to a few of many perceptrons, on any ranks.

::

    layer = Experts(d_model=64, d_hidden=256, experts=8, top_k=2, group=group)
    y = layer(x)                                            # (batch, length, d_model), both ways
    loss = token_loss + 0.01 * balance_loss(layer.routing, group)
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.models.experts.balancing import BiasBalance, balance_loss
    from rankbook.models.experts.dropping import capacity, served
    from rankbook.models.experts.layer import Experts
    from rankbook.models.experts.routing import Router, Routing

__getattr__, __dir__ = attach(__name__, __file__)
