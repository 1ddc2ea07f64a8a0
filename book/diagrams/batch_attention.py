"""Attention along the batch, cut by microbatches: the page T51_gpipe."""

from diagrams.kit import say

SIZE = (35, 35.5)
PLACE = 4  # of the word that is followed through the texts


def draw(p):
    """Four texts of eight words; attention goes down through them, the cut across."""
    cells = []
    for number in (0, 1):
        p.node(0.5, 0.5 + 20 * number, 34, 14, f"microbatch {number}")
    p.words(22, 2, say(f"word {PLACE}", f"词 {PLACE}"), tone="quiet")
    for text, y in enumerate((4, 10.8, 24, 30.8)):
        p.words(1.7, y + 1.1, say(f"text {text}", f"文本 {text}"), align="start")
        for word in range(8):
            here, x = word == PLACE, 10 + 2.7 * word
            said = [str(word)] if here else []
            cell = p.block(text // 2, x, y, 2.4, 2.4, *said, faint=not here)
            cells += [cell] if here else []
    attention = say("attention", "注意力")
    p.message(cells[0], cells[1], attention, both=True)
    p.message(cells[2], cells[3], attention, both=True)
    p.message(cells[1], cells[2], both=True, rank="bad", dashed=True)
    p.fault(22, 17.5)
    p.words(20.4, 17.5, say("only in one process", "只在单进程里有"), align="end", tone="bad")
