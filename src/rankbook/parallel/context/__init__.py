"""Attention over sequences that are cut among ranks: context parallelism.

::

    mine = cut(tokens, ranks, rank, "zigzag")  # this rank's part of each sequence
    y = ring_attention(q, k, v, group)  # keys and values travel round; exact
    y = heads_attention(q, k, v, group)  # or: whole sequences of a part of the heads
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.parallel.context.heads import heads_attention
    from rankbook.parallel.context.of_torch import official
    from rankbook.parallel.context.order import ORDERS, pairs, positions, shard, stretches, unshard
    from rankbook.parallel.context.ring import ring_attention
    from rankbook.parallel.context.softmax import block_attention, block_gradients, merge
    from rankbook.parallel.context.wire import attention_bytes

__getattr__, __dir__ = attach(__name__, __file__)
