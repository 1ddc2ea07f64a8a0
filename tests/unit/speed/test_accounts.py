"""Accounts: FLOP as the formula has them, bytes by hand, seconds by each limit in turn."""

import pytest
import torch
from torch import nn

from rankbook.models import Classifier
from rankbook.speed.accounts import Account, Op, account, predicted_gain
from rankbook.speed.batches import make_batch
from rankbook.speed.loop import Training
from rankbook.speed.machine import Machine
from rankbook.speed.measure import step_flop
from rankbook.speed.recipes import recipe
from rankbook.speed.reviews import Reviews
from rankbook.speed.sizes import size

TINY = size("cpu", vocab_size=50, d_model=32, d_hidden=48, layers=2, batch=3)
MACHINE = Machine("made up", {"float32": 100.0, "bf16": 400.0}, bytes_per_s=10.0, call_s=1.0)
LENGTHS = (3, 9, 1)


def texts():
    return Reviews.of([torch.arange(n) % 50 for n in LENGTHS], [0, 1, 0], 50)


def of_step(way, **changes):
    training = Training(recipe("plain").replace(batching=way, **changes), TINY)
    batch = make_batch(texts(), [0, 1, 2], way)
    training.step(batch)
    return account(lambda: training.step(batch))


@pytest.mark.parametrize(("way", "lengths"), [("longest of all", (9, 9, 9)), ("packed", LENGTHS)])
def test_products_have_the_flop_of_the_formula(way, lengths):
    found = of_step(way).only("matmul")
    assert found.flop == step_flop(TINY.model, torch.tensor(lengths))


def test_the_attention_kernel_of_a_cpu_is_counted():
    eager, kernel = of_step("packed"), of_step("packed", attention="sdpa")
    attention = kernel.only("attention kernel").flop
    forward = TINY.model.layers * 4 * TINY.model.d_model * sum(n * n for n in LENGTHS)
    assert attention == 3.5 * forward  # five products going back: the scores once more
    assert eager.only("matmul").flop == kernel.only("matmul").flop + 3 * forward


def test_a_forward_pass_alone_is_told_from_a_step():
    model, batch = Classifier(TINY.model), make_batch(texts(), [0, 1, 2], "packed")
    found = account(lambda: model(*batch.inputs))
    assert found.only("matmul").flop * 3 == step_flop(TINY.model, torch.tensor(LENGTHS))


def test_bytes_are_read_and_written_and_a_view_has_none():
    a, b = torch.ones(6, 4), torch.ones(4, 5)
    found = account(lambda: (a @ b).t().reshape(-1, 3).expand(2, 10, 3))
    assert found.only("matmul").bytes == 4 * (24 + 20 + 30)
    views = [op for op in found.ops if op.name in ("t", "view", "expand")]
    assert views and not any(op.bytes or op.flop for op in views)
    assert account(lambda: a.expand(9, 6, 4).add(1)).bytes == 4 * (24 + 9 * 24)


def test_a_lookup_reads_its_rows_alone():
    table = nn.Embedding(1000, 8)
    found = account(lambda: table(torch.tensor([1, 2, 3])))
    assert found.only("embedding").bytes == 2 * 3 * 8 * 4


def test_the_optimizer_is_a_kind_of_its_own_and_fewer_calls_fused():
    plain, fused = of_step("packed"), of_step("packed", fused=True)
    assert fused.only("Adam").calls < plain.only("Adam").calls / 10
    assert plain.without("Adam").calls == fused.without("Adam").calls
    assert "sqrt" not in {op.name for op in plain.without("Adam").ops}


def test_formats_follow_autocast():
    formats = {op.format for op in of_step("packed", precision="bf16").only("matmul").ops}
    assert formats == {"bf16"}
    assert {op.format for op in of_step("packed").only("matmul").ops} == {"float32"}


@pytest.mark.parametrize(
    ("op", "seconds"),
    [
        (Op("mm", "matmul", "float32", 500.0, 10), 5.0),
        (Op("mm", "matmul", "bf16", 500.0, 10), 1.25),
        (Op("add", "other", "float32", 1.0, 70), 7.0),
        (Op("add", "other", "float32", 1.0, 1, calls=3), 3.0),
        (Op("mm", "matmul", "float64", 500.0, 10), 5.0),  # never measured: the slowest known
    ],
)
def test_a_call_takes_as_long_as_its_longest_part(op, seconds):
    assert op.seconds(MACHINE) == Account((op,)).seconds(MACHINE) == seconds


def test_a_gain_is_the_ratio_of_two_accounts():
    one, two = Op("mm", "matmul", "bf16", 800.0, 1), Op("gelu", "gelu", "bf16", 0.0, 60)
    whole = Account((one, two))
    assert predicted_gain(whole, whole.without("gelu"), MACHINE) == 4.0
    assert list(whole.by_kind()) == ["matmul", "gelu"]
    assert (whole.calls, whole.flop, whole.bytes) == (2, 800.0, 61)
    assert Account(()).intensity == 0.0


def test_the_share_of_operations_no_longer_than_their_launch():
    small, large = Op("add", "other", "float32", 1, 5, 3), Op("mm", "matmul", "float32", 200, 5)
    assert Account((small,)).launch_share(MACHINE) == 1
    assert Account((small, large)).launch_share(MACHINE) == 3 / 5
    assert Account((large,)).launch_share(MACHINE) == 0


def test_what_is_updated_in_place_is_written():
    """Fused Adam reads weight, gradient and two moments, and writes all but the gradient."""
    layer = torch.nn.Linear(64, 64)
    stored = sum(p.numel() * p.element_size() for p in layer.parameters())
    moved = {}
    for fused in (True, False):
        adam = torch.optim.Adam(layer.parameters(), fused=fused, foreach=not fused)
        layer(torch.ones(1, 64)).sum().backward()
        adam.step()
        moved[fused] = account(adam.step).bytes
    assert 7 * stored <= moved[True] < 7.1 * stored  # and the steps' numbers
    assert moved[False] > 2 * moved[True]
