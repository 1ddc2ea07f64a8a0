"""The lengths of the chapter's reviews, in the order in which an epoch of its loader takes them."""

import json
from pathlib import Path

RECORDED = Path(__file__).resolve().parents[3] / "results" / "imdb_lengths.json"


def data() -> dict:
    """`lengths`, in tokens, and the sizes of DistilBERT, whose arithmetic is counted."""
    recorded = json.loads(RECORDED.read_text("utf-8"))
    lengths, epoch = (
        [int(number) for line in recorded[key] for number in line.split()]
        for key in ("lengths", "epoch")
    )
    return {
        "lengths": [lengths[place] for place in epoch],
        "model": {"width": 768, "hidden": 3072, "layers": 6, "classes": 2},
    }
