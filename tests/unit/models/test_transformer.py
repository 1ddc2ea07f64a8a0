"""The language model: causal, row by row, countable, and the same in parts."""

import pytest
import torch

from rankbook.models import TransformerConfig, TransformerLM, initialise, preset
from rankbook.models.loss import token_loss
from rankbook.parallel.pipeline import keep_stage, stage_module

WIKITEXT2 = 28_782  # entries of the vocabulary of its training text
CPU = torch.device("cpu")


@pytest.fixture
def model():
    model = TransformerLM(preset("tiny", 50, layers=5)).eval()
    initialise(model, seed=3)
    return model


@pytest.fixture
def ids():
    return torch.randint(50, (4, 12), generator=torch.Generator().manual_seed(0))


def test_original_has_a_billion_parameters():
    with torch.device("meta"):
        model = TransformerLM(preset("original", WIKITEXT2))
    d, layer = 4096, 6 * 4096**2 + 10 * 4096  # six matrices; six biases, two norms of two vectors
    vocabulary = WIKITEXT2 * (2 * d + 1)  # embedding, head and its bias
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == 8 * layer + vocabulary + 2 * d == 1_041_453_166


def test_later_tokens_change_no_earlier_output(model, ids):
    changed = ids.clone()
    changed[:, 7] = (changed[:, 7] + 1) % 50
    difference = (model(changed) - model(ids)).abs().amax(dim=(0, 2))
    assert (difference[:7] == 0).all() and (difference[7:] > 1e-3).all()


def test_rows_of_a_batch_do_not_see_each_other(model, ids):
    torch.testing.assert_close(model(ids)[2:3], model(ids[2:3]), atol=1e-5, rtol=0)


def test_positions_tell_equal_tokens_apart(model):
    logits = model(torch.full((1, 8), 7))[0]
    assert all((logits[t] - logits[t + 1]).abs().max() > 1e-3 for t in range(7))


def test_it_learns():
    config = TransformerConfig(vocab_size=11, d_model=32, d_hidden=64, heads=2, layers=2)
    model = TransformerLM(config)
    initialise(model, seed=0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    text = torch.arange(40).remainder(11).expand(4, 40)  # the next token is one more
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        loss = token_loss(model(text[:, :-1]), text[:, 1:])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 2 and losses[-1] < 0.2


def test_a_stage_made_alone_is_a_part_of_the_whole(model):
    whole = model.state_dict()
    names = []
    for index in range(3):
        part = stage_module(preset("tiny", 50, layers=5), index, 3, CPU, seed=3)
        names += part.state_dict()
        for name, value in part.state_dict().items():
            assert torch.equal(value, whole[name]), name
    assert names == list(whole)  # each once, and in order


def test_another_seed_gives_another_model_and_names_differ(model):
    other = TransformerLM(preset("tiny", 50, layers=5))
    initialise(other, seed=4)
    assert not torch.equal(other.head.weight, model.head.weight)
    first, second = (model.layers[i].up.weight for i in "01")
    assert not torch.equal(first, second)
    assert first.detach().std().item() == pytest.approx(64**-0.5, rel=0.05)


def test_stages_one_after_another_are_the_model(model, ids):
    expected = model(ids)
    x = ids
    for index in range(3):
        part = TransformerLM(preset("tiny", 50, layers=5)).eval()
        part.load_state_dict(model.state_dict())
        x = keep_stage(part, index, 3)(x)
    assert torch.equal(x, expected)


def test_dropout_acts_in_training_only(ids):
    model = TransformerLM(preset("tiny", 50, layers=1, dropout=0.5))
    initialise(model, seed=0)
    assert not torch.equal(model(ids), model(ids))
    model.eval()
    assert torch.equal(model(ids), model(ids))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"d_model": 60, "heads": 4}, "d_model 60 is not divisible by twice the heads"),
        ({"layers": 0}, "layers is 0; it must be 1 or more"),
    ],
)
def test_wrong_sizes_are_one_sentence(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        preset("tiny", 50, **changes)


def test_unknown_preset_is_one_sentence():
    with pytest.raises(ValueError, match="preset 'huge' is unknown; use tiny or original"):
        preset("huge", 50)
