"""The ranks of a job on their nodes, and what their numbers are made of."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from plots.theme import GROUND, INK, LINE, QUIET, WIDTH, color, ink_on, style

NAMES = ("RANK", "LOCAL_RANK", "GROUP_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE")


def nodes(ranks: Iterable[Mapping[str, int]], titles: Mapping[int, str] | None = None) -> Figure:
    """Draw each node as a box, and in it its ranks: first rank of the node + local rank = rank.

    ranks: of every rank, what torchrun put into RANK, LOCAL_RANK, GROUP_RANK, LOCAL_WORLD_SIZE and
    WORLD_SIZE. titles: more words above a node, by its number. Raises ValueError if ranks are
    missing, or do not add up.
    """
    ranks = sorted(({name: int(r[name]) for name in NAMES} for r in ranks), key=lambda r: r["RANK"])
    if [r["RANK"] for r in ranks] != list(range(ranks[0]["WORLD_SIZE"] if ranks else 1)):
        raise ValueError("nodes: it needs what torchrun told every rank of the job, once")
    by_node = {
        node: [r for r in ranks if r["GROUP_RANK"] == node]
        for node in sorted({r["GROUP_RANK"] for r in ranks})
    }
    first = 0
    for own in by_node.values():
        for r in own:
            if first + r["LOCAL_RANK"] != r["RANK"]:
                raise ValueError(f"nodes: rank {r['RANK']} does not follow its node's first")
        first += len(own)
    width = len(ranks) + 0.35 * len(by_node)
    with style():
        figure, axes = plt.subplots(figsize=(min(WIDTH, 1.3 * width), 1.9), layout="constrained")
        left, before = 0.0, 0
        for node, own in by_node.items():
            _node(axes, left, f"node {node}" + (titles or {}).get(node, ""), len(own))
            for r in own:
                _rank(axes, left + 0.5 + r["LOCAL_RANK"], before, r)
            left, before = left + len(own) + 0.35, before + len(own)
        axes.set(xlim=(-0.1, left - 0.25), ylim=(-0.05, 1.65))
        axes.axis("off")
    return figure


def _node(axes, left: float, title: str, ranks: int) -> None:
    shape = {"boxstyle": "round,pad=0,rounding_size=0.08", "fc": GROUND, "ec": LINE, "lw": 1}
    axes.add_patch(FancyBboxPatch((left, 0), ranks, 1.6, **shape))
    axes.text(left + 0.09, 1.38, title, color=INK, weight="bold", va="center")


def _rank(axes, x: float, before: int, names: Mapping[str, int]) -> None:
    ground = color(names["RANK"])
    shape = {"boxstyle": "round,pad=0,rounding_size=0.06", "fc": ground, "lw": 0}
    axes.add_patch(FancyBboxPatch((x - 0.41, 0.7), 0.82, 0.44, **shape))
    words = {"ha": "center", "va": "center"}
    axes.text(x, 0.91, f"rank {names['RANK']}", color=ink_on(ground), **words)
    axes.text(x, 0.46, f"local {names['LOCAL_RANK']}", color=QUIET, **words)
    axes.text(x, 0.19, f"{before} + {names['LOCAL_RANK']} = {names['RANK']}", **words)
