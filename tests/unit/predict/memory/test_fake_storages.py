"""Tensors without memory, as DTensor makes them to learn shapes, are in no ledger."""

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from rankbook.predict.memory import Ledger


def test_a_fake_tensor_is_not_counted_and_does_no_harm():
    with Ledger("cpu") as ledger:
        real = torch.ones(8)
        with FakeTensorMode():
            fake = torch.ones(1000) + 1
        ledger.tag_held({"parameters": {real.data_ptr(): 32}})
    assert fake.shape == (1000,)
    assert max(sum(moment.values()) for moment in ledger.timeline()) == 32
