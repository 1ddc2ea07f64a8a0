"""The plain loop: each switch on its own, held to the plain recipe's losses."""

import contextlib
import random
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from rankbook.speed.compiling import GRAPH_TOKENS, OPTIONS, compiling, graphs, rounded
from rankbook.speed.epochs import accuracy, train
from rankbook.speed.loop import Training, loader_of, one_pass
from rankbook.speed.number_formats import formats
from rankbook.speed.precision import matmuls
from rankbook.speed.recipes import ladder, recipe
from rankbook.speed.reviews import Reviews, synthetic
from rankbook.speed.runners import RUNNERS
from rankbook.speed.sizes import size
from rankbook.speed.skipping import reason_to_skip

TINY = size(
    "cpu",
    vocab_size=200,
    d_model=32,
    d_hidden=64,
    layers=1,
    max_length=40,
    batch=5,
    samples=28,  # the last batch is smaller
    validation=11,
    test=13,
    epochs=2,
    lr=1e-3,
)


@pytest.fixture(scope="module")
def reviews():
    """Texts of 5 to 40 tokens: made-up reviews, each cut somewhere."""
    cut = random.Random(0)

    def short(count, seed):
        whole = synthetic(count, TINY, seed)
        texts = [whole.text(i)[: cut.randint(5, 40)] for i in range(count)]
        return Reviews.of(texts, whole.labels, TINY.model.vocab_size)

    return {name: short(count, seed) for seed, (name, count) in enumerate(TINY.splits.items())}


def here(r):
    """The recipe without loader workers."""
    return r.replace(workers=0)


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    """TorchDynamo's graphs are run as they are: nothing waits for a C++ compiler."""
    for how, options in OPTIONS.items():
        dynamic = {"dynamic": True} if "dynamic" in options else {}
        monkeypatch.setitem(OPTIONS, how, dynamic | {"backend": "eager"})
    torch._dynamo.reset()  # models of equal shape would share what another test compiled


def losses_of(r, reviews, device="cpu"):
    training = Training(here(r), TINY, device)
    return one_pass(training, loader_of(training.recipe, TINY, reviews["train"])).losses


@pytest.fixture(scope="module")
def references(reviews):
    """The losses of one process in plain torch, for each recipe's order, batch and rate."""
    done = {}

    def reference(r):
        plain = recipe("plain").replace(
            workers=0, batch_times=r.batch_times, rate_rule=r.rate_rule, bookkeeping="seldom"
        )
        if r.curve[0] == "by length":
            plain = plain.replace(batching="bucketed")
        if r.curve not in done:
            training = Training(plain, TINY)
            optimizer = torch.optim.Adam(training.model.parameters(), lr=r.rate(TINY))
            done[r.curve] = []
            for batch in loader_of(plain, TINY, reviews["train"]):
                loss = F.cross_entropy(training.model(*batch.inputs), batch.labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                done[r.curve].append(loss.item())
        return done[r.curve]

    return reference


HERE = [r for r in ladder("cpu") if not (reason_to_skip(r) or r.compile or r.runner == "lightning")]


@pytest.mark.parametrize("r", HERE, ids=lambda r: r.name)
def test_losses_are_the_plain_ones(r, reviews, references):
    assert losses_of(r, reviews) == pytest.approx(references(r), abs=r.tolerance)


def test_other_mathematics_have_other_losses(reviews, references):
    curves = {r.curve: references(r) for r in HERE}
    first = {losses[1] for losses in curves.values()}
    assert len(curves) == len(first) == 4  # random, by length, 4x batch, 4x batch at the same rate


@pytest.mark.slow
def test_unequal_microbatches_weigh_as_many_samples_as_they_have(reviews, references):
    r = recipe("accumulation").replace(accumulate=3)  # 20 samples in 7, 7, 6; the last 8 in 3, 3, 2
    assert losses_of(r, reviews) == pytest.approx(references(r), abs=1e-5)


@pytest.mark.slow
def test_lightning_takes_the_same_steps(reviews, references):
    pytest.importorskip("lightning")
    training = Training(here(recipe("lightning")), TINY)
    done = RUNNERS["lightning"](training, loader_of(training.recipe, TINY, reviews["train"]))
    assert done.losses == pytest.approx(references(training.recipe), abs=1e-5)
    assert done.samples == 28 and done.seconds > 0


def test_a_pass_counts_what_it_computed(reviews):
    training = Training(here(recipe("plain")), TINY)
    done = one_pass(training, loader_of(training.recipe, TINY, reviews["train"]))
    assert done.samples == 28 and len(done.losses) == 6
    assert done.tokens == int(reviews["train"].lengths.sum())
    assert done.computed == 28 * int(reviews["train"].lengths.max())
    assert training.seen == 28 and 0 <= int(training.right) <= 28
    packed = Training(here(recipe("packed")), TINY)
    done = one_pass(packed, loader_of(packed.recipe, TINY, reviews["train"]))
    assert done.computed == done.tokens and packed.seen == 0


def test_bookkeeping_toggles_and_seldom_does_not(reviews):
    for name, calls in (("plain", 12), ("seldom", 1)):
        training = Training(here(recipe(name)), TINY)
        seen = []
        train_mode = training.model.train
        training.model.train = lambda mode=True, f=train_mode, s=seen: (s.append(mode), f(mode))[1]
        one_pass(training, loader_of(training.recipe, TINY, reviews["train"]))
        # eval() is train(False)
        assert len(seen) - (name == "plain") == calls, name


def test_large_batch_has_the_scaled_rate():
    training = Training(recipe("4x batch"), TINY)
    assert training.optimizer.param_groups[0]["lr"] == pytest.approx(2e-3)
    assert Training(recipe("fused"), TINY).optimizer.param_groups[0]["fused"] is True
    assert Training(recipe("sdpa"), TINY).optimizer.param_groups[0]["fused"] is None


@pytest.mark.slow
# compiled again: for other token counts, and for the last batch, which has fewer samples
@pytest.mark.parametrize(("name", "counts"), [("compile", (1, 2)), ("compile dynamic", (1, 0))])
def test_other_lengths_compile_again_and_symbols_do_not(name, counts, reviews, references):
    training = Training(here(recipe(name, "cpu")), TINY)
    stream = loader_of(training.recipe, TINY, reviews["train"])
    found, losses = [graphs()], []
    for batch in stream:
        losses.append(training.step(batch).item())
        found.append(graphs())
    assert losses == pytest.approx(references(training.recipe), abs=1e-5)
    assert (found[1] - found[0], found[-1] - found[1]) == counts


@pytest.mark.slow
def test_rows_that_take_turns_keep_their_graphs(reviews):
    batch = next(iter(loader_of(here(recipe("plain")), TINY, reviews["train"])))
    sizes = [replace(TINY, model=replace(TINY.model, d_hidden=n)) for n in (8, 16, 24, 40)]
    with torch._dynamo.config.patch(recompile_limit=2):  # instead of 8, with fewer models
        trainings = [Training(recipe("plain").replace(compile="default"), s) for s in sizes]
        for training in trainings:
            training.step(batch)
        before = graphs()
        with torch._dynamo.config.patch(error_on_recompile=True):
            for training in trainings:
                training.step(batch)
        assert graphs() == before
        with compiling():
            assert torch._dynamo.config.recompile_limit > len(ladder())
        assert torch._dynamo.config.recompile_limit == 2


def test_rounding_changes_the_shape_and_nothing_else(reviews):
    long = replace(TINY, model=replace(TINY.model, max_length=512))  # as long as the padding
    assert long.max_length == GRAPH_TOKENS == size("full").max_length
    plain, rounding = (Training(here(recipe(n, "cpu")), long) for n in ("sdpa", "CUDA graphs"))
    batch = next(iter(loader_of(plain.recipe, long, reviews["train"])))
    even = rounded(batch, long.max_length)
    assert even.computed % GRAPH_TOKENS == 0 and even.tokens == batch.tokens
    logits = plain.model(*batch.inputs)
    torch.testing.assert_close(plain.model(*even.inputs)[:-1], logits, atol=1e-5, rtol=0)
    assert rounding.step(batch).item() == pytest.approx(plain.step(batch).item(), abs=1e-5)


def test_padded_batches_are_not_rounded(reviews):
    padded = next(iter(loader_of(here(recipe("plain")), TINY, reviews["train"])))
    assert rounded(padded, 512) is padded


def test_sixteen_bits_are_in_the_matmuls_only(reviews):
    r = here(recipe("bf16", "cpu"))
    batch = next(iter(loader_of(r, TINY, reviews["train"])))
    found = formats(Training(r, TINY), batch)
    count = sum(p.numel() for p in Training(r, TINY).model.parameters())
    assert found["parameters"] == found["gradients"] == {"float32": count}
    assert found["optimizer state"] == {"float32": 2 * count}
    kinds = found["activations"]
    assert kinds["addmm"] == "bfloat16" and kinds["native_layer_norm"] == "float32"
    plain = formats(Training(here(recipe("plain")), TINY), batch)
    assert set(plain["activations"].values()) == {"float32"}


def test_fp16_scales_the_loss_and_bf16_does_not():
    assert Training(recipe("fp16"), TINY).scaler.is_enabled()
    assert not Training(recipe("bf16"), TINY).scaler.is_enabled()


def test_tf32_is_put_back():
    before = torch.get_float32_matmul_precision()
    with contextlib.suppress(KeyError), matmuls("tf32"):
        assert torch.get_float32_matmul_precision() == "high"
        raise KeyError
    assert torch.get_float32_matmul_precision() == before


def test_accuracy_leaves_no_review_out(reviews):
    training = Training(here(recipe("packed")), TINY)
    test = reviews["test"]
    training.model.eval()
    with torch.no_grad():
        logits = torch.cat([training.model(test.text(i)[None].long()) for i in range(len(test))])
    right = (logits.argmax(dim=1) == test.labels).double().mean().item()
    assert accuracy(training, test) == pytest.approx(right)
    assert training.model.training


def test_last_and_best_epoch_are_told_apart(reviews, monkeypatch):
    """The validation accuracy is staged: the second epoch of three is the best."""
    weights = []

    def copy_of(training):
        # of one class: what a step adds to one row it takes from the other, but for rounding
        return training.model.classifier.weight.detach()[0].sum().item()

    staged_values = iter([0.6, 0.9, 0.9])

    def staged(training, split):  # a single answer, whose mean is the accuracy
        value = copy_of(training)
        if split is reviews["validation"]:
            weights.append(value)
            value = next(staged_values)
        return torch.tensor([value], dtype=torch.float64)

    monkeypatch.setattr("rankbook.speed.epochs.answers", staged)
    said = []
    done = train(here(recipe("packed")), TINY, reviews, epochs=3, steps=2, say=said.append)
    assert done.validation == [0.6, 0.9, 0.9] and done.best_epoch == 1
    assert done.test_best == weights[1] != weights[2] == done.test_last
    assert len(done.losses) == 6 and len(said) == 3


def test_training_again_gives_the_same(reviews):
    """With dropout, which draws from the process's seed."""
    r, wet = here(recipe("packed")), replace(TINY, model=replace(TINY.model, dropout=0.3))
    one, other = (train(r, wet, reviews, epochs=1) for _ in range(2))
    assert one.losses == other.losses and one.validation == other.validation
    assert train(r, TINY, reviews, epochs=1).losses != one.losses
    assert train(r, wet, reviews, epochs=1, seed=1).losses != one.losses
