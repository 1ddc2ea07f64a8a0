"""What the ranks of test_plans_in_small.py do."""

import torch

from rankbook.comm.ring_model import Link
from rankbook.comm.traffic import traffic
from rankbook.models import TransformerConfig
from rankbook.parallel.mesh import Layout, build, train_step
from rankbook.predict.memory.setup import Setup
from rankbook.predict.plan import pretended
from rankbook.predict.plan.in_small import random_text, step_in_small
from rankbook.predict.plan.pretended import pretend_links

CONFIG = TransformerConfig(32, 16, 32, 4, 4, max_length=8)
ROWS, PER_NODE = 8, 2
LINK = Link("slow", alpha=0.25, beta=2.0**-10)  # sums of them are exact


def losses(setups: list[dict]) -> list[list[float]]:
    """The losses of three steps of each setup, which learn on the same text."""
    found = []
    for given in setups:
        step = step_in_small(CONFIG, Setup(**given), ROWS, flops=1e12)
        found.append([step().item() for _ in range(3)])
    return found


def asked(layout: str, shard: str) -> dict:
    """Seconds that a step asked to sleep, and (calls, bytes round rings) by dimension."""
    part = build(CONFIG, Layout.parse(layout, shard), torch.device("cpu"))
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    text = random_text(CONFIG, ROWS)
    train_step(part, optimizer, *text, 0.5)  # stages tell each other shapes
    slept = []
    real, pretended.time.sleep = pretended.time.sleep, slept.append
    try:
        with traffic(part.mesh) as sent, pretend_links(LINK, PER_NODE):
            train_step(part, optimizer, *text, 0.5)
    finally:
        pretended.time.sleep = real
    counts = {name: [c.calls, c.ring] for name, c in sent.by_dimension().items()}
    return {"slept": sum(slept), **counts}
