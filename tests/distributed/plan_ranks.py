"""What live ranks send in a step, layout by layout, for the plan's formulas: page 65."""

import torch

from rankbook.comm.traffic import traffic
from rankbook.models import TransformerConfig
from rankbook.parallel.mesh import Layout, build, train_step
from rankbook.predict.memory import Setup, prepare

CONFIG = TransformerConfig(512, d_model=32, d_hidden=128, heads=4, layers=8, max_length=16)
ROWS = 8
CPU = torch.device("cpu")


def counted(sizes: str, shard: str, microbatches: int) -> dict[str, float]:
    """Bytes of this rank by dimension, as a ring sends them, in the second step."""
    text = torch.randint(512, (ROWS, 17), generator=torch.Generator().manual_seed(1))
    batch = text[:, :-1], text[:, 1:]
    part = build(CONFIG, Layout.parse(sizes, shard), CPU, microbatches=microbatches)
    optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
    train_step(part, optimizer, *batch, max_norm=0.1)
    with traffic(part.mesh) as sent:
        train_step(part, optimizer, *batch, max_norm=0.1)
    return {name: count.ring for name, count in sent.by_dimension().items()}


def rings(checkpointing: str) -> int:
    """How often a step of tp=2 gathers and scatters, with a checkpointing."""
    setup = Setup(tp=2, sequences=2, precision="float32", checkpointing=checkpointing)
    step = prepare(CONFIG, setup)
    text = torch.randint(512, (2, 17), generator=torch.Generator().manual_seed(1))
    with traffic(step.part.mesh) as sent:
        step(text[:, :-1], text[:, 1:])
    return sum(sent.total("tp", name).calls for name in ("all_gather", "reduce_scatter"))
