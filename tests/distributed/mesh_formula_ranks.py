"""What the ranks of test_mesh_formula.py do: train two steps in each layout, count the second."""

import torch

from rankbook.comm.traffic import traffic
from rankbook.models import TransformerConfig
from rankbook.parallel.mesh import Layout, build, train_step
from rankbook.parallel.mesh.traffic_formula import predicted_traffic

# neither do 62 words divide by 4 ranks, nor 5 layers by 2 stages
CONFIG = TransformerConfig(62, d_model=32, d_hidden=64, heads=4, layers=5, max_length=16)
ROWS, WINDOW = 16, 16


def counted_and_foretold(rank: int, cases: list[tuple[str, str, str | None]]) -> list[tuple]:
    """For each (layout, shard, schedule): rows of what was counted, and of the formula."""
    generator = torch.Generator().manual_seed(1)
    text = torch.randint(CONFIG.vocab_size, (ROWS, WINDOW + 1), generator=generator)
    found = []
    for words, shard, schedule in cases:
        layout = Layout.parse(words, shard)
        part = build(CONFIG, layout, torch.device("cpu"), schedule=schedule)
        optimizer = torch.optim.SGD(part.parameters())  # none sends anything, and this is fast
        batch = text[:, :-1], text[:, 1:]
        train_step(part, optimizer, *batch, 0.5)  # in it, stages tell each other their shapes
        with traffic(part.mesh) as sent:
            train_step(part, optimizer, *batch, 0.5)
        foretold = predicted_traffic(CONFIG, layout, ROWS, WINDOW, schedule=schedule, rank=rank)
        found.append((_plain(sent), _plain(foretold)))
    return found


def _plain(sent) -> list[list]:
    return [list(row.values()) for row in sent.rows()]
