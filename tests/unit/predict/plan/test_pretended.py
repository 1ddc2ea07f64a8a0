"""Pretended cards and links: how long they sleep, by arithmetic; nobody sleeps here."""

import pytest
import torch

from rankbook.comm.ring_model import Link
from rankbook.models import TransformerConfig, TransformerLM, initialise
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.plan import in_small, pretended
from rankbook.predict.plan.in_small import equal_links, small_machines, step_in_small
from rankbook.predict.plan.pretended import link_seconds, pretend_card

CONFIG = TransformerConfig(32, 16, 32, 2, 3, max_length=8)
LINK = Link("slow", alpha=0.5, beta=0.001)


@pytest.fixture
def slept(monkeypatch):
    """The seconds that are asked for; none is taken."""
    asked = []
    monkeypatch.setattr(pretended.time, "sleep", asked.append)
    return asked


@pytest.mark.parametrize("tp", [1, 2])
def test_a_step_sleeps_as_long_as_the_card_computes(slept, tp):
    model, shape, rows = TransformerLM(CONFIG), ModelShape.of(CONFIG), 5
    initialise(model, 0)
    pretend_card(model, shape, 1e6, tp)
    ids = torch.zeros(rows, 8, dtype=torch.long)
    loss = model(ids).sum()
    forward = sum(slept)
    assert forward == pytest.approx(shape.flops / 3 * rows * 8 / 1e6 / tp)
    loss.backward()
    assert sum(slept) == pytest.approx(3 * forward)
    with torch.no_grad():
        model(ids)
    assert sum(slept) == pytest.approx(4 * forward)


def test_a_stage_without_a_head_sleeps_for_its_layers(slept):
    stage, shape = TransformerLM(CONFIG).keep([1], first=False, last=False), ModelShape.of(CONFIG)
    pretend_card(stage, shape, 1e6)
    stage(torch.zeros(1, 8, 16))
    assert slept == pytest.approx([shape.flops_of_layer * 8 / 1e6])


@pytest.mark.parametrize(
    ("operation", "ranks", "expected"),
    [
        ("all_reduce", [0, 1], 0.0),  # inside a node
        ("all_reduce", [2, 3], 0.0),
        ("send", [0, 1], 0.0),
        ("all_reduce", [0, 2], 2 * 0.5 + 1000 * 0.001),  # 2 steps, 2 x 1/2 of the bytes
        ("all_reduce", [0, 1, 2, 3], 6 * 0.5 + 1500 * 0.001 / 2),  # two ranks' cards together
        ("all_gather", [0, 1, 2, 3], 3 * 0.5 + 3000 * 0.001 / 2),
        ("reduce_scatter", [0, 1, 2, 3], 3 * 0.5 + 750 * 0.001 / 2),
        ("send", [0, 2], 0.5 + 1000 * 0.001),
        ("recv", [0, 2], 0.0),  # it ends with its send
        ("barrier", [0, 2], 0.5),
    ],
)
def test_a_link_sleeps_its_line(operation, ranks, expected):
    took = link_seconds(operation, 1000, ranks, ranks[0], LINK, per_node=2)
    assert took == pytest.approx(expected)


def test_machines_in_small_assume_nothing():
    near = Link("near", 0.0, 0.0)
    machines = small_machines(1e9, near, LINK, per_node=2)
    assert (machines.gpus, machines.node) == (4, 2)
    assert machines.link(2) == near
    assert machines.link(2, stride=2) == LINK
    assert machines.link(4).beta == LINK.beta / 2
    assert equal_links(machines).card.between == near


@pytest.mark.parametrize(
    ("setup", "sentence"),
    [
        (Setup(dp=2, zero=1, sequences=2), "the book's ranks have ZeRO 0 and 3, not 1"),
        (Setup(sequences=4), "a step in small has precision='float32' only, not 'bf16'"),
        (Setup(precision="float32", sequences=4, checkpointing="layers"), "checkpointing='none'"),
        (Setup(precision="float32", sequences=4, offload=("optimizer",)), "has offload=.. only"),
        (Setup(precision="float32", sequences=4, chunks=2), "has chunks=1 only, not 2"),
        (
            Setup(dp=2, sequences=3, precision="float32"),
            "3 sequences x 1 microbatches x 2 replicas are 6 rows",
        ),
    ],
)
def test_what_cannot_be_tried_is_said_before_any_rank_talks(setup, sentence):
    with pytest.raises(ValueError, match=sentence):
        step_in_small(CONFIG, setup, 4, 1e9)


def test_all_get_the_same_text():
    tokens, targets = in_small.random_text(CONFIG, 3)
    assert tokens.shape == targets.shape == (3, 8)
    assert torch.equal(tokens[:, 1:], targets[:, :-1])
