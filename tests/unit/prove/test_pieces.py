"""Pieces of a tensor: as DTensor cuts, and by layouts for plain tensors."""

import pytest
import torch
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.placement_types import _StridedShard

from rankbook.prove.pieces import Layout, piece_of


class Mesh:
    """A mesh as seen from the rank at `where`."""

    def __init__(self, shape: tuple[int, ...], where: tuple[int, ...], names=("dp", "tp")):
        self.shape, self.where, self.ndim = shape, where, len(shape)
        self.mesh_dim_names = names[: self.ndim]

    def get_coordinate(self):
        return list(self.where)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [0, 1, 4, 5, 7])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_as_torch_chunks(ranks, size, dim):
    whole = torch.arange(2.0 * size).view((size, 2) if dim == 0 else (2, size))
    pieces = [
        Layout({"w": Shard(dim)}, Mesh((ranks,), (rank,))).find("w").cut(whole)
        for rank in range(ranks)
    ]
    chunks = whole.chunk(ranks, dim)
    for index, piece in enumerate(pieces):
        assert piece.equal(chunks[index]) if index < len(chunks) else piece.numel() == 0
    assert torch.cat(pieces, dim).equal(whole)


@pytest.mark.parametrize("rows", [8, 7])
@pytest.mark.parametrize(
    "placements",
    [
        (Shard(0), Shard(0)),
        (_StridedShard(0, split_factor=2), Shard(0)),
        (Replicate(), Shard(1)),
        (Shard(1), Shard(0)),
    ],
)
def test_as_dtensor_cuts(alone, placements, rows):
    """All ranks of a mesh of 2 x 2, in one process: by torch's own placements."""
    whole = torch.arange(rows * 6.0).view(rows, 6)
    for where in ((0, 0), (0, 1), (1, 0), (1, 1)):
        right = whole
        for placement, index in zip(placements, where, strict=True):
            if not isinstance(placement, Replicate):
                shards, _ = placement._split_tensor(right, 2, with_padding=False)
                right = shards[index]
        piece = Layout({"*": placements}, Mesh((2, 2), where)).find("w")
        assert piece.cut(whole).equal(right)


def test_a_dtensor_says_it_itself(alone):
    mesh = torch.distributed.init_device_mesh("cpu", (1,))
    tensor = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)])
    assert piece_of(tensor, "w", Layout(None, None)).which(torch.ones(4, 2)) == "0:1:0/1"


def test_same_pieces_have_the_same_word():
    whole = torch.zeros(4, 6)
    words = {
        (row, column): Layout({"w": {"tp": Shard(0)}}, Mesh((2, 2), (row, column)))
        .find("w")
        .which(whole)
        for row in (0, 1)
        for column in (0, 1)
    }
    assert words[0, 0] == words[1, 0] != words[0, 1] == words[1, 1]


def test_a_function_cuts():
    whole = torch.arange(12.0).view(6, 2)
    pieces = [Layout({"q*": lambda t, i=i: t[i::2]}, None).find("qkv") for i in (0, 1, 1)]
    assert pieces[0].cut(whole).equal(whole[::2])
    assert pieces[0].which(whole) != pieces[1].which(whole) == pieces[2].which(whole)


def test_the_first_pattern_that_fits_and_whole_without_one():
    layout = Layout({"a.*": Shard(0), "*": Replicate()}, Mesh((2,), (1,)))
    whole = torch.arange(4.0)
    assert layout.find("a.b").cut(whole).tolist() == [2, 3]
    assert layout.find("c").cut(whole) is whole
    assert Layout(None, None).find("c").which(whole) == "whole"


@pytest.mark.parametrize(
    ("placements", "mesh", "says"),
    [
        ({"w": Shard(0)}, None, "'w' has placements, so say over which ranks: mesh="),
        ({"w": Shard(0)}, Mesh((2, 2), (0, 0)), "'w' has 1 placements for a mesh of 2 dimensions"),
        ({"w": {"pp": Shard(0)}}, Mesh((2, 2), (0, 0)), "'w': the mesh has no 'pp'"),
    ],
)
def test_a_layout_that_says_too_little(placements, mesh, says):
    with pytest.raises(ValueError, match="layout: ") as error:
        Layout(placements, mesh)
    assert says in str(error.value)


def test_a_pattern_that_fits_nothing():
    with pytest.raises(ValueError, match=r"layout: '\*\.upp' fits no parameter of the twin"):
        Layout({"*.up": lambda t: t, "*.upp": lambda t: t}, None).check(["a.up"])
