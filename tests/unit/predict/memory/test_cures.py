"""What a layer keeps, what waits on the host, and what nobody builds."""

import pytest
import torch

from rankbook.models.loss import token_loss
from rankbook.models.transformer import TransformerConfig, TransformerLM, initialise
from rankbook.parallel.pipeline.holding import SavedBytes
from rankbook.predict.memory.cures import OnHost, checkpoint_layers
from rankbook.predict.memory.live import prepare
from rankbook.predict.memory.setup import Setup
from rankbook.predict.memory.updating import Sharing, Update

CONFIG = TransformerConfig(50, 32, 64, 4, 2, max_length=16)
IDS = torch.arange(64).view(4, 16) % 50


def trained(how: str = "none") -> tuple[float, list[torch.Tensor], int]:
    """The loss, the gradients, and the most that was saved."""
    model = TransformerLM(CONFIG)
    initialise(model, 0)
    checkpoint_layers(model, how)
    saved = SavedBytes()
    saved.watch(model)
    loss = token_loss(model(IDS), IDS)
    kept = saved.now
    loss.backward()
    return loss.item(), [p.grad for p in model.parameters()], kept


def test_what_is_computed_anew_is_the_same():
    loss, gradients, kept = trained()
    for how in ("layers", "selective"):
        other, found, less = trained(how)
        assert other == loss and less < kept
        assert all(torch.equal(a, b) for a, b in zip(found, gradients, strict=True))
    with pytest.raises(ValueError, match="checkpointing 'some' is unknown; use one of none"):
        checkpoint_layers(TransformerLM(CONFIG), "some")


def test_the_host_keeps_what_is_saved_but_no_parameter():
    x, weight = torch.ones(3, requires_grad=True), torch.nn.Parameter(torch.full((3,), 2.0))
    made = []

    class Noted:
        def __enter__(self):
            made.append(1)

        def __exit__(self, *_):
            pass

    with OnHost([weight], Noted):
        y = (x * weight).sum()  # saves both
    y.backward()
    assert len(made) == 1
    assert x.grad.tolist() == [2.0] * 3 and weight.grad.tolist() == [1.0] * 3


@pytest.mark.parametrize("host", [False, True])
def test_an_update_is_adams(host):
    mine, plain = (torch.nn.Parameter(torch.ones(7)) for _ in range(2))
    update = Update([mine], Sharing(), 0.1, host=host)
    adam = torch.optim.AdamW([plain], lr=0.1)
    for number in range(3):
        for parameter in (mine, plain):
            parameter.grad = torch.full((7,), number - 0.5)
        update.step()
        adam.step()
    assert torch.equal(mine, plain)
    assert [t.numel() for t in update.states()] == [7] * (3 if host else 2)
    update.zero_grad()
    assert update.gradients() == []


def test_a_copy_in_32_bits_remembers_what_16_round_away():
    def after(copies: bool) -> list[float]:
        weight = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
        update = Update([weight], Sharing(), lr=1e-3, copies=copies)
        for _ in range(8):
            weight.grad = torch.ones_like(weight)
            update.step()
        return weight.tolist()

    assert after(copies=False) == [1.0, 1.0]  # each step is less than half of 2**-8
    assert after(copies=True) == [0.9921875] * 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"regather": True}, "no live rank is built with regather=True"),
        ({"eager_attention": True}, "eager_attention=True"),
        ({"sequence_parallel": False}, "sequence_parallel=False"),
        ({"precision": "bf16-fp32-grads"}, "no live rank adds gradients up in 32 bits"),
        ({"precision": "fsdp-bf16", "zero": 3}, "use zero=3 and dp=2 or more"),
        ({"chunks": 2}, "chunks=2"),
    ],
)
def test_what_nobody_builds(options, said):
    with pytest.raises(ValueError, match=said):
        prepare(CONFIG, Setup(**options))
