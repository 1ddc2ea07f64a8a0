"""The ledger of storages: followed to their end, on one device only."""

import torch
from torch import nn

from rankbook.predict.memory.ledger import Ledger


def test_the_ledger_follows_a_storage_to_its_end():
    with Ledger() as ledger:
        x = torch.zeros(10)
        y = x.view(2, 5) + 1  # 40 bytes more; a view is none
        del x
        y.untyped_storage().resize_(0)
        torch.zeros(1)
    totals = [sum(line.values()) for line in ledger.timeline()]
    assert max(totals) == 80 and totals[-1] == 4


def test_the_ledger_does_not_count_other_devices():
    with Ledger("cuda") as ledger:
        nn.Linear(3, 3)
        torch.zeros(3, device="meta")
    assert not ledger.entries
