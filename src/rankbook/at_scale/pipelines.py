"""How much a pipeline idles when the nodes grow in number and the global batch does not."""

from collections.abc import Sequence

from rankbook.at_scale.site import Site
from rankbook.parallel.simulator import sweep


def pipeline_idle(
    nodes: Sequence[int], site: Site, stages: int = 8, schedule: str = "gpipe"
) -> dict[int, float]:
    """The idle share by number of nodes, simulated; a microbatch is one sequence.

    The ranks form as many pipelines of `stages` ranks as they can, and share out the global batch.
    1F1B idles as long as GPipe, but wants more microbatches. Left out is what cannot run: fewer
    ranks than stages, less than one microbatch, more ranks or a batch that cannot be dealt.
    """
    found = {}
    for count in nodes:
        pipelines, over = divmod(count * site.ranks_per_node, stages)
        if over or not pipelines or site.global_batch % pipelines:
            continue
        for row in sweep([schedule], [stages], [site.global_batch // pipelines]):
            found[count] = row["idle"]
    return found
