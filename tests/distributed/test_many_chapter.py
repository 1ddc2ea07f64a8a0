"""What page 37 says of DDP: when one fails, its sentence has to go."""

from contextlib import nullcontext
from copy import deepcopy

import pytest
import torch
import torch.distributed as dist
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from rankbook.core.timing import one_process, time_interleaved
from rankbook.models.classifier import Classifier, ClassifierConfig
from rankbook.speed import make_batch, size, synthetic
from rankbook.speed.proof import allowed, caught, check, control, off, trained
from rankbook.speed.strategies import Strategy, prepare
from rankbook.speed.strategies.backward_trace import trace_backward
from rankbook.speed.strategies.outcomes import outcome_on_ranks
from rankbook.speed.strategies.scaling import steps_per_epoch
from tests.distributed.launch import run_ranks

# the embedding is most of the model, as on the page
SIZE = size("cpu", vocab_size=3000, d_model=32, d_hidden=128, max_length=32)
DEEP = size("cpu", vocab_size=300, layers=4, max_length=32)
ROWS, RATE, LARGE = 12, 2e-3, 4
LEFT_OUT = "pre_classifier.weight"


def fresh(of=SIZE) -> Classifier:
    return Classifier(of.model, attention="sdpa").initialise(seed=0)


def batches(rows: int, count: int, of=SIZE) -> list:
    reviews = synthetic(rows * count, of)
    numbers = list(range(rows * count))
    return [
        make_batch(reviews, numbers[i * rows : (i + 1) * rows], "longest of batch")
        for i in range(count)
    ]


def train(strategy: str, rows: int, count: int, passes: int = 1) -> list[float]:
    training = prepare(strategy, fresh(), RATE)
    stream = batches(rows, count)
    return [training.step(batch).item() for _ in range(passes) for batch in stream]


def fourfold() -> dict:
    """The same reviews in batches of 12, and of four times 12, at one rate."""
    return {
        "small": train("alone", ROWS, 2 * LARGE, passes=6),
        "large": train("ddp", LARGE * ROWS, 2, passes=6),
        "large alone": train("alone", LARGE * ROWS, 2, passes=6),
    }


def only_sum(group, bucket):
    work = dist.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda sent: sent.value()[0])


def outcome(model: torch.nn.Module, batch):
    adam = torch.optim.Adam(model.parameters())
    return outcome_on_ranks(Strategy(model, adam, torch.device("cpu")), batch)


def proof() -> dict:
    """How far DDP is off from float64, what is allowed, and what gives three mistakes away."""
    (batch,) = batches(ROWS, 1)
    model = trained(SIZE, synthetic(96, SIZE), steps=60)
    right = control(model, batch)
    found = outcome(DistributedDataParallel(deepcopy(model)), batch)
    distance = check(found, right, "float32", SIZE.model)
    summed, partly = DistributedDataParallel(deepcopy(model)), deepcopy(model)
    summed.register_comm_hook(None, only_sum)
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(partly, [LEFT_OUT])
    wrong = {
        "own": deepcopy(model),
        "summed": summed,
        "left out": DistributedDataParallel(partly),
    }
    outcomes = {name: outcome(each, batch) for name, each in wrong.items()}
    rounded = outcome_on_ranks(prepare("ddp-bf16", deepcopy(model), RATE), batch)
    check(rounded, right, "bf16", SIZE.model)
    return {
        "worst": distance.worst[1],
        "allowed": allowed("float32", SIZE.model),
        "words": {n: caught(each, right, "float32", SIZE.model) for n, each in outcomes.items()},
        "loss": off(outcomes["summed"], right).loss,
        "bf16": caught(rounded, right, "float32", SIZE.model),
    }


def forgotten() -> list:
    """Bytes sent for a batch in four parts: with `no_sync`, and without; and the losses."""
    found = []
    for forget in (False, True):
        training = prepare("ddp", fresh(), RATE)
        if forget:
            training.no_sync = nullcontext
        (batch,) = batches(LARGE * ROWS, 1)
        losses = []
        for _ in range(3):
            training.traffic.reset()
            losses.append(training.step(*batch.split(4)).item())
        found.append([training.traffic.bytes, training.traffic.all_reduces, losses])
    return found


def divided() -> dict:
    """What more ranks do not make less: numbers that Adam updates, bytes that are sent."""
    alone, ddp, frozen = (fresh() for _ in range(3))
    frozen.distilbert["embeddings"].requires_grad_(False)
    found = {}
    for name, strategy, model in (
        ("alone", "alone", alone), ("ddp", "ddp", ddp), ("frozen", "ddp", frozen)
    ):  # fmt: skip
        training = prepare(strategy, model, RATE)
        for batch in batches(ROWS, 2):
            if training.traffic:
                training.traffic.reset()
            training.step(batch)
        updated = [p for group in training.optimizer.param_groups for p in group["params"]]
        found[name] = {
            "updated": sum(p.numel() for p in updated),
            "sent": training.traffic.bytes if training.traffic else 0,
            "with a gradient": sum(p.numel() for p in model.parameters() if p.requires_grad),
        }
    return found


def traced() -> dict:
    """By case: all_reduces, the hidden share, and whether the last began when all was computed."""
    found = {}
    for name, of, limit in (("one", DEEP, 1000), ("many", DEEP, 1), ("words", SIZE, None)):
        model = DistributedDataParallel(fresh(of), bucket_cap_mb=limit)
        batch = batches(ROWS, 1, of)[0].share(dist.get_rank(), 2)
        for _ in range(2):
            F.cross_entropy(model(*batch.inputs), batch.labels).backward()
        loss = F.cross_entropy(model(*batch.inputs), batch.labels)
        trace = trace_backward(loss.backward)
        last = trace.sent[-1].start > trace.computed
        found[name] = [len(trace.sent), trace.hidden, last, trace.operations[-1].name]
    return found


def turns() -> dict:
    """Who ran how often, in which order, and with how many threads."""
    seen = []
    ways = {
        "both": lambda: seen.append("both"),
        "one": one_process(lambda: seen.append(f"one with {torch.get_num_threads()}"), 2),
    }
    seconds = time_interleaved(ways, 3, clock="slowest rank")
    return {
        "seen": seen,
        "seconds": seconds,
        "counts": {name: len(times) for name, times in seconds.items()},
        "after": torch.get_num_threads(),
    }


def everything() -> dict:
    torch.set_num_threads(1)
    return {
        "fourfold": fourfold(),
        "proof": proof(),
        "forgotten": forgotten(),
        "divided": divided(),
        "traced": traced(),
        "turns": turns(),
    }


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return run_ranks(everything, tmp_path_factory.mktemp("ranks"), 2)


def apart(losses: list[float], others: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(losses, others, strict=True))


def test_four_times_the_batch_at_the_same_rate_is_another_training(ranks):
    for rank in ranks:
        small, large = rank["fourfold"]["small"], rank["fourfold"]["large"]
        assert len(small) == LARGE * len(large)
        assert sum(large[-2:]) / 2 > sum(small[-8:]) / 8 + 0.05
        assert apart(large, rank["fourfold"]["large alone"]) < 1e-4  # and averaging is not why


def test_the_gradient_of_ddp_is_that_of_one_process(ranks):
    for rank in ranks:
        assert rank["proof"]["worst"] < rank["proof"]["allowed"] / 5


def test_gradients_that_are_not_averaged_are_caught(ranks):
    for rank in ranks:
        words = rank["proof"]["words"]
        assert "gradient of" in words["own"]
        assert "gradient of" in words["summed"]
        assert f"gradient of {LEFT_OUT}" in words["left out"]
        assert rank["proof"]["loss"] < 1e-6  # the loss tells nothing of a sum for a mean


def test_bf16_gradients_are_off_and_nothing_else_is(ranks):
    for rank in ranks:
        assert "gradient of" in rank["proof"]["bf16"]


def test_a_forgotten_no_sync_sends_each_part(ranks):
    for rank in ranks:
        (once, messages, losses), (each, more, others) = rank["forgotten"]
        assert each == 4 * once and more == 4 * messages
        assert apart(losses, others) < 1e-6


def test_every_rank_updates_everything_and_sends_every_gradient(ranks):
    for rank in ranks:
        alone, ddp, frozen = (rank["divided"][name] for name in ("alone", "ddp", "frozen"))
        assert alone["updated"] == ddp["updated"] == alone["with a gradient"]
        assert alone["sent"] == 0 and ddp["sent"] == 4 * ddp["updated"]
        assert frozen["sent"] == 4 * frozen["with a gradient"] < 0.3 * ddp["sent"]


def test_one_bucket_hides_nothing_and_the_last_one_never(ranks):
    for rank in ranks:
        one, many, words = (rank["traced"][name] for name in ("one", "many", "words"))
        assert one[:2] == [1, 0.0] and many[0] > 1
        assert all(last for _, _, last, _ in (one, many, words))
        assert words[:2] == [1, 0.0] and words[3].startswith("EmbeddingBackward")


def test_the_embeddings_of_the_models():
    with torch.device("meta"):
        models = {c.d_model: Classifier(c) for c in (size("cpu").model, ClassifierConfig())}
    share = {
        width: model.distilbert["embeddings"].word_embeddings.weight.numel()
        / sum(p.numel() for p in model.parameters())
        for width, model in models.items()
    }
    assert share[96] > 0.9 and 0.3 < share[768] < 0.4


def test_ranks_are_timed_by_turns(ranks):
    for number, rank in enumerate(ranks):
        turns = rank["turns"]
        assert turns["seconds"] == ranks[0]["turns"]["seconds"]  # the slowest rank's, on all
        assert turns["counts"] == {"both": 3, "one": 3} and turns["after"] == 1
        assert turns["seen"].count("both") == 4
        assert turns["seen"].count("one with 2") == (4 if number == 0 else 0)


def test_on_four_gpus_the_post_takes_a_quarter_of_the_steps():
    assert [steps_per_epoch(35_000, 12, n, drop_last=True) for n in (1, 4)] == [2916, 729]
