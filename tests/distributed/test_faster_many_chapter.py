"""What page 38 says of torch and of DeepSpeed: when one fails, its sentence has to go."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional as F

from rankbook.models.classifier import Classifier, ClassifierConfig
from rankbook.speed import make_batch, size, synthetic
from rankbook.speed.strategies import prepare
from rankbook.speed.strategies.fsdp2 import shard
from rankbook.speed.strategies.memory import measured
from tests.distributed.launch import run_ranks

# the embedding is most of the model, as in the chapter
SIZE = size("cpu", vocab_size=3000, d_model=32, d_hidden=128, max_length=32)
ROWS, RATE = 12, 2e-3


def fresh() -> Classifier:
    return Classifier(SIZE.model, attention="sdpa").initialise(seed=0)


def batches(rows: int, count: int) -> list:
    reviews = synthetic(rows * count, SIZE)
    numbers = list(range(rows * count))
    return [
        make_batch(reviews, numbers[i * rows : (i + 1) * rows], "longest of batch")
        for i in range(count)
    ]


def shapes() -> dict:
    """Of the widest matmul: the weight kept, the weight used, and the result."""
    mesh = init_device_mesh("cpu", (2,))
    plan = {"lin1": ColwiseParallel(), "lin2": RowwiseParallel()}
    x = torch.randn(ROWS, 8, 32, generator=torch.Generator().manual_seed(0))
    mine = x[dist.get_rank() :: 2]
    perceptron, sharded, parallel = (fresh().distilbert.transformer.layer[0].ffn for _ in range(3))
    found, whole = {}, perceptron(x)
    for name, module, given in (
        ("sharded", fully_shard(sharded, mesh=mesh), mine),
        ("parallel", parallelize_module(parallel, mesh, plan), x),
    ):
        seen = [list(module.lin1.weight.to_local().shape)]

        def note(layer, inputs, output, seen=seen):
            weight = layer.weight
            local = weight.to_local() if hasattr(weight, "to_local") else weight
            seen.extend([list(local.shape), list(output.shape)])

        module.lin1.register_forward_hook(note)
        expected = whole[dist.get_rank() :: 2] if given is mine else whole
        equal = torch.allclose(module(given), expected, atol=1e-6)
        found[name] = [*seen, equal]
    return found


def messages() -> dict:
    """How many collectives a forward and backward pass has, sharded by layer and as a whole."""
    mesh = init_device_mesh("cpu", (2,))
    batch = batches(ROWS, 1)[0].share(dist.get_rank(), 2)
    counts = {}
    for by_layer in (True, False):
        model = fresh()
        shard(model, mesh) if by_layer else fully_shard(model, mesh=mesh)
        with CommDebugMode() as mode:
            F.cross_entropy(model(*batch.inputs), batch.labels).backward()
        counts[by_layer] = sorted(mode.get_comm_counts().values())
    return counts


def dealt_by_torch() -> int:
    """Parameters whose state this rank keeps under ZeroRedundancyOptimizer."""
    zero = ZeroRedundancyOptimizer(fresh().parameters(), torch.optim.Adam, lr=RATE)
    return sum(p.numel() for p in zero.optim.param_groups[0]["params"])


def deepspeed() -> list[int]:
    """Bytes of gradients on this rank in stages 1 and 2, as the optimizer finds them."""
    found = []
    for stage in (1, 2):
        trained = prepare(f"deepspeed{stage}", fresh(), RATE)
        for batch in batches(ROWS, 2):
            trained.step(batch)
        found.append(measured(trained).gradients)
        trained.close()
    return found


def everything() -> dict:
    return {
        "shapes": shapes(),
        "messages": messages(),
        "dealt": dealt_by_torch(),
        "deepspeed": deepspeed(),
    }


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return run_ranks(everything, tmp_path_factory.mktemp("ranks"), 2, deadline=180.0)


def test_sharded_computes_with_the_whole_weight_and_tensor_parallel_with_its_part(ranks):
    for rank in ranks:
        found = rank["shapes"]
        assert found["sharded"] == [[64, 32], [128, 32], [ROWS // 2, 8, 128], True]
        assert found["parallel"] == [[64, 32], [64, 32], [ROWS, 8, 64], True]


def test_messages_of_fully_shard_by_layer_and_as_a_whole(ranks):
    """reduce_scatter and all_gather: each of two layers is gathered twice, the rest once."""
    for rank in ranks:
        assert rank["messages"] == {True: [3, 5], False: [1, 1]}


def dealt(sizes: list[int], ranks: int) -> list[int]:
    """The rule of exercise 2: the largest first, each to the rank that has least."""
    has = [0] * ranks
    for count in sorted(sizes, reverse=True):
        has[has.index(min(has))] += count
    return has


def test_zero_deals_out_whole_parameters(ranks):
    sizes = [p.numel() for p in fresh().parameters()]
    assert [rank["dealt"] for rank in ranks] == dealt(sizes, 2)
    with torch.device("meta"):
        distilbert = Classifier(ClassifierConfig())
    sizes = [p.numel() for p in distilbert.parameters()]
    assert max(dealt(sizes, 3)) == max(dealt(sizes, 8)) == max(sizes)


def test_deepspeed_keeps_the_whole_gradient_of_a_parameter_that_is_cut(ranks):
    embedding = 4 * 3000 * 32
    half = 2 * sum(p.numel() for p in fresh().parameters())
    for rank in ranks:
        for gradients in rank["deepspeed"]:
            assert gradients >= embedding > 1.3 * half
