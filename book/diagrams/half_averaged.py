"""Two pipelines on four ranks, of which DDP averages only the first stage: the page 26_pipe_ddp."""

from diagrams.kit import say

SIZE = (40, 39)
LEFT, RIGHT = 11.5, 28.5  # where the two pipelines begin


def draw(p):
    """Down: the way of the two halves of a batch. Across: what is averaged, and what is not."""
    averaged, not_averaged = say("averaged", "已平均"), say("not averaged", "没有平均")
    p.node(0.5, 9, 39, 10.5, "stage 0")
    p.node(0.5, 28, 39, 10.5, "stage 1")
    halves = (say("half a batch", "半个 batch"), say("the other half", "另一半"))
    ranks = []
    for rank in range(4):
        ranks.append(
            p.process(rank, (LEFT, RIGHT)[rank % 2], (13.2, 32.2)[rank // 2], 9, 4, f"rank {rank}")
        )
    for side, x in enumerate((LEFT, RIGHT)):
        rows = p.tensor(x + 0.2, 2.8, [side] * 4)
        p.words(x + 4.5, 1.4, halves[side], tone="quiet")
        p.message(rows, ranks[side], rank=side)
        p.message(ranks[side], ranks[2 + side], both=True, rank=side)
    p.words(24.5, 23.8, say("activations,\ngradients", "激活值、\n梯度"), tone="quiet")
    p.message(ranks[0], ranks[1], both=True, rank="good")
    p.held(24.5, 15.2)
    p.words(24.5, 11.8, averaged, tone="good")
    p.message(ranks[2], ranks[3], both=True, rank="bad", dashed=True)
    p.fault(24.5, 34.2)
    p.words(24.5, 30.8, not_averaged, tone="bad")
