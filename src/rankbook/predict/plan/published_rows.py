"""What others measured, read from published.toml: what they ran, on what, and how it went."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from rankbook.comm.ring_model import Link
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.plan.machines import Card, Machines, find_card
from rankbook.predict.plan.published_units import measured


class Source(NamedTuple):
    """Where rows come from. chose: of its rows, the kinds that chose assumptions: time, memory."""

    name: str
    title: str
    url: str
    date: str
    chose: tuple[str, ...]
    rows: str


class Between(NamedTuple):
    """Checkpointing between "none" and "layers": shares made anew, and kept, and why."""

    anew: float
    kept: float
    why: str


@dataclass(frozen=True)
class Published:
    """One configuration, and what was `measured`: "seconds" of a step, bytes by kind of memory.

    first_layers: of the first stage, if the memory is that one's and the split uneven (0: neither).
    overlap: whether gradients are averaged while backward still works.
    """

    source: Source
    words: str
    shape: ModelShape
    setup: Setup
    machines: Machines
    measured: dict[str, float]
    between: Between | None = None
    first_layers: int = 0
    overlap: bool = True


def read() -> dict[str, Any]:
    """The file as it is."""
    return tomllib.loads((files("rankbook.predict.plan") / "published.toml").read_text("utf-8"))


def sources() -> dict[str, Source]:
    """Every source, by name."""
    found = read()["sources"].items()
    return {n: Source(n, **entry | {"chose": tuple(entry["chose"])}) for n, entry in found}


def left_out() -> list[dict[str, str]]:
    """What was found and cannot be compared: `what`, and `why`."""
    return read()["left_out"]


@cache
def published() -> tuple[Published, ...]:
    """Every row, in the file's order."""
    return tuple(row for table in read()["tables"] for row in _rows(table))


def _rows(table: dict[str, Any]) -> Iterator[Published]:
    """The rows of one table."""
    for values in table["rows"]:
        facts = table.get("common", {}) | dict(zip(table["columns"], values, strict=True))
        yield _row(table, facts)


def _row(table: dict[str, Any], facts: dict[str, Any]) -> Published:
    known = read_once()
    shape = ModelShape(**known["models"][facts["model"]], sequence=facts["sequence"])
    between = known["between"].get(facts.get("checkpointing", "none"))
    setup = _setup(facts, "none" if between else facts.get("checkpointing", "none"))
    machines = Machines(_card(table), facts["gpus"])
    return Published(
        sources()[table["source"]],
        _words(table["gpu"], facts),
        shape,
        setup,
        machines,
        measured(table, facts, shape, setup),
        Between(**between) if between else None,
        facts.get("first_layers", 0),
        table.get("overlap", True),
    )


read_once = cache(read)


def _setup(facts: dict[str, Any], checkpointing: str) -> Setup:
    names = {field.name for field in fields(Setup)} - {"checkpointing"}
    given = {name: value for name, value in facts.items() if name in names}
    dp = facts["gpus"] // (facts.get("pp", 1) * facts.get("tp", 1))
    if "batch" in facts:
        given["microbatches"] = facts["batch"] // (dp * facts["sequences"])
    return Setup(**given, dp=dp, checkpointing=checkpointing)


def _card(table: dict[str, Any]) -> Card:
    """The card that a table names, with what it says of it otherwise."""
    card = find_card(table["gpu"])
    own = dict(table.get("card", {}))
    if "between" in own:
        own["between"] = Link(card.between.name, card.between.alpha, 1 / own["between"])
    return replace(card, **own)


def _words(gpu: str, facts: dict[str, Any]) -> str:
    """What a row is, in a few words."""
    cut = [f"{name} {facts[name]}" for name in ("pp", "tp") if facts.get(name, 1) > 1]
    parts = [facts["model"], f"{facts['gpus']} {gpu}", *cut, f"zero {facts.get('zero', 0)}"]
    parts += [f"{facts['sequences']} x {facts['sequence']}", facts.get("checkpointing", "none")]
    return ", ".join([*parts, *filter(None, [facts.get("note")])])
