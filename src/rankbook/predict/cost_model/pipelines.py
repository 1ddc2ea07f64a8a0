"""How much a pipeline idles when the nodes grow in number and the global batch does not."""

from collections.abc import Sequence

from rankbook.parallel.pipeline.simulator import sweep
from rankbook.predict.cost_model.cluster_spec import ClusterSpec


def pipeline_idle(
    nodes: Sequence[int], spec: ClusterSpec, stages: int = 8, schedule: str = "gpipe"
) -> dict[int, float]:
    """The idle share by number of nodes, simulated; a microbatch is one sequence.

    The ranks form as many pipelines of `stages` ranks as they can, and share out the global batch.
    1F1B idles as long as GPipe, but wants more microbatches. Left out is what cannot run: fewer
    ranks than stages, less than one microbatch, more ranks or a batch that cannot be dealt.
    Sources: of the schedules, see `rankbook.parallel.pipeline`; GPipe idles (stages - 1) of
    (microbatches + stages - 1) steps, https://arxiv.org/abs/1811.06965, section 2.
    """
    found = {}
    for count in nodes:
        pipelines, over = divmod(count * spec.ranks_per_node, stages)
        if over or not pipelines or spec.global_batch % pipelines:
            continue
        for row in sweep([schedule], [stages], [spec.global_batch // pipelines]):
            found[count] = row["idle"]
    return found
