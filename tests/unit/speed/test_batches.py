"""Batches: every sample once, the same ones in the same batch, and nothing counted wrongly."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankbook.models import Classifier, ClassifierConfig
from rankbook.speed import WAYS, Batch, Order, Reviews, loader, make_batch, padding, size, synthetic

SIZE = size("cpu", vocab_size=60, max_length=128, d_model=16, d_hidden=16, layers=1)


@pytest.fixture(scope="module")
def reviews():
    return synthetic(50, SIZE)


def ids_of(batch: Batch) -> list[list[int]]:
    """The real ids of each row, read off the tensors that the model gets."""
    if batch.offsets is None:
        return [ids[mask].tolist() for ids, mask in zip(batch.ids, batch.mask, strict=True)]
    return [text.tolist() for text in batch.ids.split(batch.offsets.diff().tolist())]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 512), min_size=1, max_size=400),
    way=st.sampled_from(WAYS),
    batch=st.integers(1, 30),
    seed=st.integers(0, 2**40),
    epoch=st.integers(0, 3),
    shuffle=st.booleans(),
)
def test_every_sample_is_in_one_batch(lengths, way, batch, seed, epoch, shuffle):
    order = Order(torch.tensor(lengths), way, batch, seed, shuffle)
    order.set_epoch(epoch)
    batches = list(order)
    assert sorted(sample for samples in batches for sample in samples) == [*range(len(lengths))]
    assert len(batches) == len(order) == -(-len(lengths) // batch)
    smaller = [samples for samples in batches if len(samples) < batch]
    assert len(smaller) == (len(lengths) % batch > 0) and all(smaller)
    assert list(order) == batches, "the order is that of seed and epoch, however often it is asked"


def test_order_follows_seed_and_epoch():
    lengths = torch.arange(1, 101)
    for way in WAYS:
        order = Order(lengths, way, 12, seed=1)
        first = list(order)
        order.set_epoch(1)
        assert list(order) != first
        assert list(Order(lengths, way, 12, seed=2)) != first
        assert list(Order(lengths, way, 12, seed=1)) == first


def test_only_bucketing_changes_who_shares_a_batch():
    lengths = torch.randint(1, 512, (100,), generator=torch.Generator().manual_seed(0))
    of_all, of_batch, bucketed, packed = (list(Order(lengths, way, 12)) for way in WAYS)
    assert of_all == of_batch == packed != bucketed


def test_buckets_are_of_like_length_in_random_order():
    lengths = torch.randint(1, 512, (2000,), generator=torch.Generator().manual_seed(0))
    batches = Order(lengths, "bucketed", 10).batches()
    spread = [int(lengths[batch].max() - lengths[batch].min()) for batch in batches]
    assert max(spread) < 40  # of 500 lengths that are sorted together, ten are neighbours
    means = torch.tensor([lengths[batch].double().mean() for batch in batches])
    assert not (means.diff() > 0).all() and not (means.diff() < 0).all()
    sorted_once = Order(lengths, "bucketed", 10, shuffle=False).batches()
    assert torch.equal(lengths[torch.cat(sorted_once)], lengths.sort(descending=True).values)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_gives_each_text_as_it_is(reviews, way, workers):
    batches = loader(reviews, way, 12, seed=3, workers=workers)
    assert len(batches) == 5
    drawn = torch.random.get_rng_state()
    seen = []
    for batch in batches:
        samples = batch.samples.tolist()
        assert ids_of(batch) == [reviews.text(i).tolist() for i in samples]
        assert torch.equal(batch.labels, reviews.labels[samples])
        assert batch.tokens == reviews.lengths[samples].sum()
        assert batch.computed == batch.ids.numel()
        assert len(batch) == len(samples)
        seen += samples
    assert sorted(seen) == [*range(50)]
    assert torch.equal(torch.random.get_rng_state(), drawn), "dropout's random numbers stay"
    batches.batch_sampler.set_epoch(1)
    assert [i for batch in batches for i in batch.samples.tolist()] != seen


def test_what_each_way_pads_to(reviews):
    samples = reviews.lengths.argsort()[:3].tolist()
    longest = int(reviews.lengths[samples].max())
    assert longest < reviews.lengths.max() == 128, "otherwise the ways do not differ here"
    shapes = {way: make_batch(reviews, samples, way).ids.shape for way in WAYS}
    assert shapes["longest of all"] == (3, 128)
    assert shapes["longest of batch"] == shapes["bucketed"] == (3, longest)
    assert shapes["packed"] == (reviews.lengths[samples].sum(),)
    packed = make_batch(reviews, samples, "packed")
    assert packed.offsets.dtype == torch.int32 and packed.longest == longest
    assert packed.computed == packed.tokens


def test_all_ways_give_the_model_the_same(reviews):
    model = Classifier(SIZE.model, attention="sdpa").initialise(0)
    expected, *others = (model(*make_batch(reviews, [3, 1, 4, 15], way).inputs) for way in WAYS)
    for logits in others:
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_shares_are_rows_of_the_batch_and_of_its_kind(reviews, way):
    batch = make_batch(reviews, [*range(7, 19)], way)
    shares = [batch.share(rank, 3) for rank in range(3)]
    for rank, share in enumerate(shares):
        assert share.samples.tolist() == batch.samples.tolist()[rank::3]
        assert torch.equal(share.labels, batch.labels[rank::3])
        assert ids_of(share) == ids_of(batch)[rank::3]
        assert (share.offsets is None) == (batch.offsets is None)
    assert sum(share.tokens for share in shares) == batch.tokens
    assert sum(share.computed for share in shares) == batch.computed
    with pytest.raises(ValueError, match="a batch of 12 texts cannot be shared by 5 ranks equally"):
        batch.share(0, 5)


@pytest.mark.parametrize("way", WAYS)
def test_parts_of_a_batch_in_its_order(reviews, way):
    batch = make_batch(reviews, [*range(10)], way)
    parts = batch.split(4)
    assert [len(part) for part in parts] == [3, 3, 3, 1]
    assert [ids for part in parts for ids in ids_of(part)] == ids_of(batch)
    assert len(batch.split(100)) == 10


def test_to_a_device(reviews):
    for way in ("packed", "bucketed"):
        batch = make_batch(reviews, [0, 1], way)
        there = batch.to("meta")
        assert {x.device.type for x in (there.ids, there.labels, there.samples)} == {"meta"}
        assert (there.tokens, there.longest) == (batch.tokens, batch.longest)
        assert (there.mask is None) == (batch.mask is None)


def test_padding_is_what_the_batches_have(reviews):
    config = ClassifierConfig(d_model=24, heads=2, d_hidden=8, layers=3, vocab_size=9)
    for way in WAYS:
        found = padding(reviews.lengths, way, 12, config=config, seed=4, epoch=2)
        batches = loader(reviews, way, 12, seed=4)
        batches.batch_sampler.set_epoch(2)
        batches = list(batches)
        assert found.tokens == sum(batch.tokens for batch in batches)
        assert found.computed == sum(batch.computed for batch in batches)
        rows = [
            length
            for batch in batches
            for length in (
                batch.offsets.diff().tolist()
                if batch.offsets is not None
                else [batch.ids.shape[1]] * len(batch)
            )
        ]
        assert found.flop == pytest.approx(float(config.forward_flop(torch.tensor(rows)).sum()))
        assert found.real_flop == pytest.approx(float(config.forward_flop(reviews.lengths).sum()))
        assert found.attention == float(config.attention_flop(torch.tensor(rows)).sum())
        assert found.real_attention == float(config.attention_flop(reviews.lengths).sum())


def test_a_square_makes_arithmetic_cost_more_than_tokens():
    lengths = torch.tensor([128, 512])
    found = padding(lengths, "longest of all", 2)
    assert found.token_ratio == 1024 / 640
    # a layer of DistilBERT: a token costs 6 d as much as a pair of tokens (d = 768)
    by_hand = 2 * (4608 * 512 + 512**2) / (4608 * 640 + 128**2 + 512**2)
    assert found.arithmetic_ratio == pytest.approx(by_hand, rel=1e-3)  # the head costs little


def test_a_larger_pool_has_batches_of_more_equal_length():
    lengths = torch.randint(1, 512, (2000,), generator=torch.Generator().manual_seed(0))
    costs = [padding(lengths, "bucketed", 10, pool=pool).computed for pool in (1, 5, 20, 200)]
    assert costs == sorted(costs, reverse=True) and len(set(costs)) == 4
    # nobody has other neighbours than without sorting
    assert costs[0] == padding(lengths, "longest of batch", 10).computed


def test_wrong_arguments_are_one_sentence(reviews):
    with pytest.raises(
        ValueError, match="batching 'sorted' is unknown; use one of: longest of all"
    ):
        loader(reviews, "sorted", 12)
    with pytest.raises(ValueError, match="batch is 0; it must be 1 or more"):
        loader(reviews, "packed", 0)
    with pytest.raises(ValueError, match="pool is 0; it must be 1 or more"):
        Order(reviews.lengths, "bucketed", 12, pool=0)
    with pytest.raises(ValueError, match="batching 'dense' is unknown"):
        make_batch(Reviews.of([[1]], [0], 2), [0], "dense")
