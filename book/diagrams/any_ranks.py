"""The same global batches, whoever computes them: the page 43_any_ranks."""

from diagrams.kit import say

SIZE = (41.6, 39.5)
WORLDS = ((4, 1, 5), (2, 6, 12), (3, 13, None))  # ranks, the first step, the last


def draw(p):
    """Seed and step give the twelve samples of a row; the colour says who computes them."""
    said = say("seed and step give these 12 samples", "种子和步数决定这 12 个样本")
    p.words(20, 1.2, said, tone="quiet")
    y, saved = 3, None
    for ranks, first, last in WORLDS:
        top = _step(p, y, first, ranks)
        if saved:
            p.message(saved, top.port("top"))
        p.words(3.9, y + 3.1, "⋮", tone="quiet")
        p.words(20, y + 3.1, "⋮", tone="quiet")
        middle = y + (3.2 if last else 1)
        p.words(34.4, middle, say(f"{ranks} ranks", f"{ranks} 个 rank"), align="start", bold=True)
        if last:
            foot = _step(p, y + 4.4, last, ranks)
            saved = p.disk(12, y + 8.9, 16, 4.4, f"checkpoint {last}")
            p.message(foot.port("bottom"), saved)
        y += 16


def _step(p, y, step, ranks):
    p.words(6.2, y + 1, say(f"step {step}", f"第 {step} 步"), align="end")
    return p.tensor(6.9, y, [cell * ranks // 12 for cell in range(12)])
