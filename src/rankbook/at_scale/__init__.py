"""What changes at 8, 64 and 512 nodes: computed, never measured, from stated assumptions.

Each function takes the number of nodes and what it needs to know of a cluster, a `Site`. What was
measured, and goes in, comes from book/results.
"""

from rankbook.at_scale.network import Link, crossing, fitted_link, ring, tree
from rankbook.at_scale.pipelines import pipeline_idle
from rankbook.at_scale.rendezvous import Joining, RendezvousCosts, join, watching
from rankbook.at_scale.saving import best_period, job_mtbf, lost_share, state_bytes, write_seconds
from rankbook.at_scale.site import Site
from rankbook.at_scale.start_up import Reads, start_from_copy, start_from_image, start_shared

__all__ = [
    "Joining",
    "Link",
    "Reads",
    "RendezvousCosts",
    "Site",
    "best_period",
    "crossing",
    "fitted_link",
    "job_mtbf",
    "join",
    "lost_share",
    "pipeline_idle",
    "ring",
    "start_from_copy",
    "start_from_image",
    "start_shared",
    "state_bytes",
    "tree",
    "watching",
    "write_seconds",
]
