"""The tutorial's model and batches: in parts as a whole, mistakes included."""

import pytest
import torch
from torch import nn

from originals.pipe_tutorial import tutorial_batch, tutorial_columns, tutorial_stages
from rankbook.models import TransformerConfig

CONFIG = TransformerConfig(50, 16, 16, heads=4, layers=4)


@pytest.fixture
def ids():
    return torch.randint(50, (6, 9), generator=torch.Generator().manual_seed(0))


def test_stages_one_after_another_are_the_model(ids):
    whole = nn.Sequential(*tutorial_stages(CONFIG, 1, seed=0))
    parts = nn.Sequential(*tutorial_stages(CONFIG, 2, seed=0))
    assert [len(part) for part in parts] == [3, 3]  # embedding and layers, layers and head
    assert torch.equal(whole(ids), parts(ids)) and whole(ids).shape == (6, 9, 50)


def test_rows_may_be_cut_and_joined(ids):
    model = nn.Sequential(*tutorial_stages(CONFIG, 1, seed=0))
    cut = torch.cat([model(chunk) for chunk in ids.chunk(4)])  # 2, 2, 2
    assert torch.allclose(model(ids), cut, atol=1e-6)


def test_a_seed_gives_its_model_and_leaves_the_generator_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, two, other = (tutorial_stages(CONFIG, 2, seed)[0][0].table.weight for seed in (0, 0, 1))
    assert torch.equal(one, two) and not torch.equal(one, other)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_nothing_hides_the_future(ids):
    model = nn.Sequential(*tutorial_stages(CONFIG, 1, seed=0))
    changed = ids.clone()
    changed[:, -1] = (ids[:, -1] + 1) % 50
    assert not torch.allclose(model(ids)[:, 0], model(changed)[:, 0], atol=1e-4)


def test_first_weights_are_within_a_tenth():
    (model,) = tutorial_stages(CONFIG, 1, seed=0)
    for weight in (model[0].table.weight, model[-1].linear.weight):
        assert 0.09 < weight.abs().max() <= 0.1
    assert not model[-1].linear.bias.any()


def test_columns_are_stretches_of_the_text_and_replicas_share_the_time():
    columns = tutorial_columns(torch.arange(26), rows=4)
    assert columns.shape == (6, 4) and columns[:, 1].tolist() == [6, 7, 8, 9, 10, 11]
    halves = [tutorial_columns(torch.arange(26), 4, replica, 2) for replica in range(2)]
    assert torch.equal(torch.cat(halves), columns)


def test_targets_are_the_next_tokens_in_the_tutorials_order():
    columns = tutorial_columns(torch.arange(2000), rows=20)
    tokens, targets = tutorial_batch(columns, 0)
    assert tokens.shape == (20, 35) and targets.shape == (700,)
    assert torch.equal(targets.view(35, 20).t(), tokens + 1)  # each is there, elsewhere
    assert (tokens.reshape(-1) + 1 == targets).sum() == 2


def test_the_last_batch_is_what_is_left():
    columns = tutorial_columns(torch.arange(40), rows=4)
    tokens, targets = tutorial_batch(columns, 7, length=5)
    assert tokens.shape == (4, 2) and targets.tolist() == [8, 18, 28, 38, 9, 19, 29, 39]


@pytest.mark.parametrize("stages", [0, 3])
def test_unequal_stages_are_one_sentence(stages):
    with pytest.raises(ValueError, match=f"4 layers do not make {stages} equal stages"):
        tutorial_stages(CONFIG, stages, seed=0)
