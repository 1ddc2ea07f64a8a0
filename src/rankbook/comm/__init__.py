"""What ranks send each other: an all-to-all with gradients; a ring's bytes, and its seconds.

::

    ring_bytes("all_reduce", 2**20, n=4)                 # a rank sends 1.5 MiB
    ring(4, 2**20, Link("a cable", 1e-5, 1e-9))          # seconds of the all_reduce
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.comm.differentiable import all_to_all
    from rankbook.comm.ring_model import Link, half_ring, ring, ring_bytes

__getattr__, __dir__ = attach(__name__, __file__)
