"""A mesh of ranks on these nodes: are there as many, and which dimension leaves a node?"""

import math
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rankbook.doctor.finding import Finding, Options, number, ok, problem, warning

if TYPE_CHECKING:
    from rankbook.parallel.mesh.layout import Layout


def findings(options: Options) -> Iterator[Finding]:
    """What can be said of ``--mesh``; nothing without one."""
    if not options.mesh:
        return
    import torch

    from rankbook.parallel.mesh.layout import Layout

    try:
        layout = Layout.parse(options.mesh)
    except ValueError as error:
        yield problem("mesh", f"No mesh: {error}.")
        return
    per_node = options.ranks or torch.cuda.device_count() or None
    yield fits(layout, per_node, number(os.environ, "SLURM_NNODES"))


def fits(layout: "Layout", per_node: int | None, nodes: int | None) -> Finding:
    """Does the mesh suit `nodes` (None: as many as it takes) of `per_node` ranks (None: likewise)?

    Ranks are numbered node by node, and those that differ in tp only are neighbours.
    """
    ranks = layout.ranks
    if per_node is None:
        per_node = -(-ranks // (nodes or 1))
    if nodes is None:
        nodes = -(-ranks // per_node)
        per_node = min(per_node, ranks)
    of = f"{nodes} nodes of {per_node}" if nodes > 1 else "this node"
    value: dict[str, Any] = {
        "mesh": str(layout),
        "ranks": ranks,
        "nodes": nodes,
        "ranks a node": per_node,
    }
    if nodes * per_node != ranks:
        there = nodes * per_node
        says = f"Mesh {layout} takes {ranks} ranks, and {of} ha{'ve' if nodes > 1 else 's'} {there}"
        says += f": choose a mesh of {there}, or start {ranks} (--ranks N: so many on a node)."
        return problem("mesh", says, value)
    apart = crossing(layout, per_node)
    value["between nodes"] = apart
    # of cp's ring the next piece travels while the last one is worked on
    for name, beside in (("tp", 1), ("ep", layout.cp * layout.tp)):
        if name in apart:
            inside = math.gcd(getattr(layout, name), max(1, per_node // beside))
            says = f"Mesh {layout}: {name} crosses nodes of {per_node} ranks, and it exchanges in "
            says += f"every layer: use {name}={inside}, and pp or dp between nodes."
            return warning("mesh", says, value)
    says = f"Mesh {layout}: {ranks} ranks on {of}"
    between = f"; {' and '.join(apart)} between the nodes" if apart else ""
    return ok("mesh", f"{says}{between}.", value)


def crossing(layout: "Layout", per_node: int) -> list[str]:
    """The dimensions of which a group has ranks on several nodes of `per_node` ranks each."""
    strides, stride = {}, layout.ranks
    for name, size in layout.sizes.items():
        strides[name] = stride = stride // size

    def crosses(name: str, stride: int) -> bool:
        size = layout.sizes[name]
        firsts = (rank for rank in range(layout.ranks) if rank // stride % size == 0)
        return any(first // per_node != (first + (size - 1) * stride) // per_node
                   for first in firsts)  # fmt: skip

    return [name for name, stride in strides.items() if crosses(name, stride)]
