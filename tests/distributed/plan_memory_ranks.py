"""What the ranks of test_plan_memory.py do: a step of each set-up, its memory recorded."""

import torch

from rankbook.models.transformer import TransformerConfig
from rankbook.predict.memory.live import prepare
from rankbook.predict.memory.recording import record_step
from rankbook.predict.memory.setup import Setup

CONFIG = TransformerConfig(512, 128, 512, 4, 4, max_length=64)


def peaks(setups: list[dict]) -> list[int]:
    """Bytes of this rank at the peak of a step of each."""
    return [_peak(Setup(**given)) for given in setups]


def _peak(setup: Setup) -> int:
    rows = setup.sequences * setup.microbatches * setup.dp
    text = torch.randint(512, (2, rows, 64), generator=torch.Generator().manual_seed(1))
    return record_step(prepare(CONFIG, setup), *text).total
