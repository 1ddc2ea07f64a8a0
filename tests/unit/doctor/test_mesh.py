"""Whether a mesh fits the nodes, and which of its dimensions leaves one."""

import pytest

from rankbook.doctor import Options, mesh
from rankbook.doctor.mesh import crossing, fits
from rankbook.parallel.mesh import Layout


def groups(layout: Layout, dimension: str) -> set[tuple[int, ...]]:
    """The ranks that differ in one dimension only, by counting: tp is the fastest."""
    places = [
        (pp, dp, tp)
        for pp in range(layout.pp)
        for dp in range(layout.dp)
        for tp in range(layout.tp)
    ]
    axis = ("pp", "dp", "tp").index(dimension)

    def others(place):
        return (*place[:axis], *place[axis + 1 :])

    return {
        tuple(rank for rank, place in enumerate(places) if others(place) == others(one))
        for one in places
    }


@pytest.mark.parametrize("per_node", [1, 2, 3, 4, 6, 8, 12, 24])
@pytest.mark.parametrize("sizes", [(2, 3, 4), (4, 3, 2), (1, 24, 1), (3, 1, 8), (24, 1, 1)])
def test_which_dimension_leaves_a_node(sizes, per_node):
    layout = Layout(*sizes)
    expected = [
        name for name in ("pp", "dp", "tp")
        if any(len({rank // per_node for rank in ranks}) > 1 for ranks in groups(layout, name))
    ]  # fmt: skip
    assert crossing(layout, per_node) == expected


@pytest.mark.parametrize(
    ("text", "per_node", "nodes", "level", "says"),
    [
        ("pp=2,dp=2,tp=2", 8, None, "ok", "Mesh pp=2,dp=2,tp=2: 8 ranks on this node."),
        ("pp=2,dp=2,tp=2", None, None, "ok", "Mesh pp=2,dp=2,tp=2: 8 ranks on this node."),
        ("dp=2", 8, None, "ok", "Mesh dp=2: 2 ranks on this node."),
        (
            "pp=2,tp=8", 8, 2, "ok",
            "Mesh pp=2,tp=8: 16 ranks on 2 nodes of 8; pp between the nodes.",
        ),
        (
            "pp=2,dp=2,tp=4", 4, None, "ok",
            "Mesh pp=2,dp=2,tp=4: 16 ranks on 4 nodes of 4; pp and dp between the nodes.",
        ),
        (
            "dp=2,tp=8", 4, 4, "warning",
            "Mesh dp=2,tp=8: tp crosses nodes of 4 ranks, and it exchanges in every layer: use "
            "tp=4, and pp or dp between nodes.",
        ),
        (
            "dp=2,ep=2,tp=2", 4, 2, "ok",
            "Mesh dp=2,ep=2,tp=2: 8 ranks on 2 nodes of 4; dp between the nodes.",
        ),
        (
            "ep=4,tp=2", 4, 2, "warning",
            "Mesh ep=4,tp=2: ep crosses nodes of 4 ranks, and it exchanges in every layer: use "
            "ep=2, and pp or dp between nodes.",
        ),
        (
            "tp=4", 6, 2, "problem",
            "Mesh tp=4 takes 4 ranks, and 2 nodes of 6 have 12: choose a mesh of 12, or start 4 "
            "(--ranks N: so many on a node).",
        ),
        (
            "pp=2,dp=2,tp=2", 3, None, "problem",
            "Mesh pp=2,dp=2,tp=2 takes 8 ranks, and 3 nodes of 3 have 9: choose a mesh of 9, or "
            "start 8 (--ranks N: so many on a node).",
        ),
        (
            "dp=2", 8, 1, "problem",
            "Mesh dp=2 takes 2 ranks, and this node has 8: choose a mesh of 8, or start 2 "
            "(--ranks N: so many on a node).",
        ),
    ],
)  # fmt: skip
def test_does_it_fit(text, per_node, nodes, level, says):
    finding = fits(Layout.parse(text), per_node, nodes)
    assert (finding.level, finding.says) == (level, says)


def test_the_command_looks_at_the_mesh_it_is_given(monkeypatch):
    monkeypatch.delenv("SLURM_NNODES", raising=False)
    assert list(mesh.findings(Options())) == []
    (found,) = mesh.findings(Options(mesh="pp=2,tp=2", ranks=4))
    assert found.level == "ok"
    monkeypatch.setenv("SLURM_NNODES", "2")
    (found,) = mesh.findings(Options(mesh="pp=2,tp=2", ranks=2))
    assert found.says == "Mesh pp=2,tp=2: 4 ranks on 2 nodes of 2; pp between the nodes."
    (found,) = mesh.findings(Options(mesh="pp=2,sp=2"))
    assert found.level == "problem" and "'sp=2' names no dimension of a mesh" in found.says
