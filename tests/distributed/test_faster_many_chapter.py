"""What chapter 32 says of torch and of DeepSpeed: when one fails, its sentence has to go."""

from contextlib import nullcontext

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
from rankbook.speed.strategies.scaling import ORIGINAL, efficiency, steps_per_epoch
from tests.distributed.launch import run_ranks

# the embedding is most of the model, as in the chapter
SIZE = size("cpu", vocab_size=3000, d_model=32, d_hidden=128, max_length=32)
ROWS, RATE, LARGE = 12, 2e-3, 4


def fresh() -> Classifier:
    return Classifier(SIZE.model, attention="sdpa").initialise(seed=0)


def batches(rows: int, count: int) -> list:
    reviews = synthetic(rows * count, SIZE)
    numbers = list(range(rows * count))
    return [
        make_batch(reviews, numbers[i * rows : (i + 1) * rows], "longest of batch")
        for i in range(count)
    ]


def train(strategy: str, rows: int, count: int, passes: int = 1) -> list[float]:
    trained = prepare(strategy, fresh(), RATE)
    stream = batches(rows, count)
    return [trained.step(batch).item() for _ in range(passes) for batch in stream]


def fourfold() -> dict:
    """The same reviews in batches of 12, and of four times 12, at one rate."""
    return {
        "small": train("alone", ROWS, 2 * LARGE, passes=6),
        "large": train("ddp", LARGE * ROWS, 2, passes=6),
        "large alone": train("alone", LARGE * ROWS, 2, passes=6),
    }


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


def forgotten() -> list:
    """Bytes sent for a batch in four parts: with `no_sync`, and without; and the losses."""
    found = []
    for forget in (False, True):
        trained = prepare("ddp", fresh(), RATE)
        if forget:
            trained.no_sync = nullcontext
        (batch,) = batches(LARGE * ROWS, 1)
        losses = []
        for _ in range(3):
            trained.traffic.reset()
            losses.append(trained.step(*batch.split(4)).item())
        found.append([trained.traffic.bytes, trained.traffic.all_reduces, losses])
    return found


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
        "fourfold": fourfold(),
        "shapes": shapes(),
        "messages": messages(),
        "forgotten": forgotten(),
        "dealt": dealt_by_torch(),
        "deepspeed": deepspeed(),
    }


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return run_ranks(everything, tmp_path_factory.mktemp("ranks"), 2, deadline=180.0)


def off(losses: list[float], others: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(losses, others, strict=True))


def test_four_times_the_batch_at_the_same_rate_is_another_training(ranks):
    for rank in ranks:
        small, large = rank["fourfold"]["small"], rank["fourfold"]["large"]
        assert len(small) == LARGE * len(large)
        assert sum(large[-2:]) / 2 > sum(small[-8:]) / 8 + 0.05
        assert off(large, rank["fourfold"]["large alone"]) < 1e-4  # and averaging is not why


def test_the_steps_of_an_epoch_of_the_original():
    assert [steps_per_epoch(35_000, 12, n, drop_last=True) for n in (1, 4)] == [2916, 729]


def test_the_efficiency_of_the_original_on_four_gpus():
    assert round(efficiency(ORIGINAL["one"], ORIGINAL["four"], 4), 2) == 0.67


def test_sharded_computes_with_the_whole_weight_and_tensor_parallel_with_its_part(ranks):
    for rank in ranks:
        found = rank["shapes"]
        assert found["sharded"] == [[64, 32], [128, 32], [ROWS // 2, 8, 128], True]
        assert found["parallel"] == [[64, 32], [64, 32], [ROWS, 8, 64], True]


def test_messages_of_fully_shard_by_layer_and_as_a_whole(ranks):
    """reduce_scatter and all_gather: each of two layers is gathered twice, the rest once."""
    for rank in ranks:
        assert rank["messages"] == {True: [3, 5], False: [1, 1]}


def test_a_forgotten_no_sync_sends_each_part(ranks):
    for rank in ranks:
        (once, messages, losses), (each, more, others) = rank["forgotten"]
        assert each == 4 * once and more == 4 * messages
        assert off(losses, others) < 1e-6


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
