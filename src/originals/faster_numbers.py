"""Every number of the third text, on faster fine-tuning, and what really changed from row to row.

Settings are read from its listings, one field each. Source:
https://sebastianraschka.com/blog/2023/pytorch-faster.html; `tests/originals` holds them to it.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from rankbook.core.timing import gain

SAMPLES, EPOCHS, BATCH = 35_000, 3, 12  # batch: of one GPU
TEST = 10_000  # reviews; its loader drops the last four
CLAIM = (22.53, 2.75)  # minutes, "eight times"
# accuracies of the plain loop after each epoch, in percent
TRAINING, VALIDATION = (89.81, 95.02, 97.28), (92.17, 92.09, 89.88)
EXTRAS = "checkpoints, log, deterministic"


@dataclass(frozen=True)
class TextRow:
    """One training of the text: its `minutes`, its test `accuracy` in percent if it gives one.

    section: where the number stands. base: the row that the text compares it with, and `claims`:
    the one thing that it names as the change. The other fields are the settings of the listing.
    """

    name: str
    section: str
    minutes: float
    accuracy: float | None = None
    base: str = ""
    claims: str = ""
    loop: str = "Trainer"
    bits: int = 16
    compiled: str = "no"
    gpus: int = 1
    strategy: str = "none"
    workers: int = 1
    tested: str = "best epoch"
    extras: str = EXTRAS
    dropout: str = "in every step"

    @property
    def batch(self) -> int:
        """Samples of an optimizer step on all GPUs together: each has batches of its own."""
        return BATCH * self.gpus

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole training; what is left of an epoch is dropped."""
        return EPOCHS * (SAMPLES // self.batch)

    @property
    def gpu_minutes(self) -> float:
        """What was used: minutes times GPUs."""
        return self.minutes * self.gpus


_PLAIN = {"loop": "plain", "bits": 32, "tested": "last epoch", "extras": "none"}
_MANY = {"base": "16 bits", "gpus": 4}
ROWS = (
    TextRow("plain loop, opening", "opening", CLAIM[0], **_PLAIN),
    TextRow("plain loop", "1", 21.33, 89.92, **_PLAIN),
    TextRow("Trainer", "2", 21.79, 92.6, "plain loop", "loop", bits=32),
    TextRow("16 bits", "3", 8.25, 93.2, "Trainer", "bits"),
    TextRow("compile", "4", 8.44, None, "16 bits", "compiled", compiled="in the clock"),
    TextRow("compile, early", "4", 5.6, None, "16 bits", "compiled", compiled="before the clock"),
    TextRow("DDP", "5", 3.07, 93.1, claims="gpus", strategy="ddp", **_MANY),
    TextRow("ddp_sharded", "6", 2.58, None, "DDP", "strategy", gpus=4, strategy="ddp_sharded"),
    TextRow("DeepSpeed", "6", 2.75, 92.6, "DDP", "strategy", gpus=4, strategy="deepspeed_stage_2"),
    TextRow("Fabric", "7", 1.8, None, "DeepSpeed", "loop", "Fabric", gpus=4, workers=2,
            strategy="deepspeed_stage_2", tested="last epoch", extras="none",
            dropout="in the first step of an epoch"),
)  # fmt: skip
SETTINGS = (*[field.name for field in fields(TextRow)][6:], "batch")  # after base and claims
# the changes besides the one it names that the text itself says, in its words or in its listing
MENTIONED = {"Trainer": ("tested", "extras"), "DDP": ("strategy",), "Fabric": ("extras",)}
# the book's rows of the same switch: of the ladder in book/results/speed-*, and of speed_full-*
OURS = {"Trainer": ("lightning",), "16 bits": ("bf16", "bf16, packed"),
        "compile, early": ("compile",)}  # fmt: skip
# what the row below a recorded row computes: how reviews become batches, and the attention
BASES = {"plain": "padded, eager", "seldom": "padded, eager", "longest of batch": "padded, eager",
         "bucketed": "bucketed, eager", "packed": "packed, eager",
         "sdpa": "packed, sdpa"}  # fmt: skip


def text_row(name: str) -> TextRow:
    """The row `name`. Raises KeyError."""
    return {row.name: row for row in ROWS}[name]


def changed_settings(row: TextRow, base: TextRow) -> dict[str, tuple]:
    """The settings in which two rows of the text differ: their value before, and after."""
    pairs = ((name, getattr(base, name), getattr(row, name)) for name in SETTINGS)
    return {name: (before, after) for name, before, after in pairs if before != after}


def speed_up_steps(names: Sequence[str]) -> list[dict]:
    """Row by row: its ``name``, how many ``times`` as fast as the row before, and its ``share``.

    The shares are those of the logarithm, so they add up to 1, as the factors multiply.
    """
    rows = [text_row(name) for name in names]
    whole = math.log(rows[0].minutes / rows[-1].minutes)
    steps = []
    for before, row in itertools.pairwise(rows):
        times = before.minutes / row.minutes
        steps.append({"name": row.name, "times": times, "share": math.log(times) / whole,
                      "changed": changed_settings(row, before)})  # fmt: skip
    return steps


def recorded_gains(results: Sequence[Mapping], kind: str = "CPU") -> dict[str, dict]:
    """`gains` of the first of `results` that was recorded on this kind of device; empty if none.

    results: files of ``book/results``, each with a "kind", and a "ladder" where it has one.
    """
    ladders = (r["ladder"] for r in results if r.get("ladder") and r.get("kind") == kind)
    return gains(next(ladders, []))


def gains(rows: Sequence[Mapping]) -> dict[str, dict]:
    """How many times as fast each recorded row of the book is as the row that it builds on.

    rows: those of a recorded ladder: "name", "base" and "turns", in seconds, where turn i of each
    row ran in round i. By name: the ``median`` of the turns' ratios, ``p10``, ``p90``, and the name
    of the base as ``over``. Rows that were skipped, and rows whose base was, are left out; the
    first has no base.
    """
    turns = {row["name"]: row["turns"] for row in rows if "turns" in row}
    return {
        row["name"]: {**gain(turns[row["base"]], turns[row["name"]]), "over": row["base"]}
        for row in rows
        if row["name"] in turns and row["base"] in turns
    }
