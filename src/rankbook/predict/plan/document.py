"""A plan as one JSON document."""

import json
from dataclasses import asdict, fields
from typing import Any

from rankbook.predict.memory.setup import Setup
from rankbook.predict.memory.terms import Terms
from rankbook.predict.plan.accuracy import summary
from rankbook.predict.plan.answer import Answer
from rankbook.predict.plan.fake_ranks import Tracked
from rankbook.predict.plan.machines import Assumptions, Machines
from rankbook.predict.plan.model import Model
from rankbook.predict.plan.reasons import why_it_lost
from rankbook.predict.plan.search import Plan
from rankbook.predict.plan.settings.every import settings_of
from rankbook.predict.plan.step import idle_share

GB = 1e9


def as_json(found: Answer) -> str:
    """All of it, for a program."""
    return json.dumps(as_document(found), indent=1, ensure_ascii=False)


def as_document(found: Answer) -> dict[str, Any]:
    """model, machines, model_states_gb, layouts (best first), losers, accuracy, assumptions.

    Sizes are in GB of 10^9 bytes, times in seconds; every part has its formula.
    """
    plans = found.plans
    best = plans.best[0] if plans and plans.best else None
    return {
        "model": model_entry(found.model, tokens=plans is not None),
        "machines": machines_entry(found.machines),
        "batch_tokens": found.batch_tokens,
        "model_states_gb": {zero: size / GB for zero, size in found.states.items()},
        "layouts": [layout_entry(plan) for plan in plans.all] if plans else [],
        "losers": [
            {
                "layout": words(plan.setup),
                **setup_entry(plan.setup),
                "reason": why_it_lost(plan, best),
            }
            for plan in (plans.losers if plans else [])
        ],
        "settings": [
            {name: asdict(each) for name, each in settings_of(plan).items()}
            for plan in (plans.best if plans else [])
        ],
        "fake_ranks": tracked_entry(found.tracked) if found.tracked else None,
        "accuracy": summary(),
        "assumptions": assumptions_entry(found.machines.assumed),
    }


def model_entry(model: Model, tokens: bool = True) -> dict[str, Any]:
    """Sizes, parameters, and what was assumed."""
    shape = asdict(model.shape) if tokens else None
    return {
        "name": model.name,
        "parameters": model.parameters,
        "shape": shape,
        "parameters_of_shape": model.shape.parameters if tokens else None,
        "assumed": list(model.assumed),
    }


def machines_entry(machines: Machines) -> dict[str, Any]:
    """The card, its links in B/s, and how many."""
    card = machines.card
    return {
        "gpus": machines.gpus,
        "gpus_per_node": machines.node,
        "nodes": -(-machines.gpus // machines.node),
        "gpu": card.name,
        "memory_gb": card.memory / GB,
        "usable_gb": machines.usable / GB,
        "flops": card.flops,
        "bandwidth": card.bandwidth,
        "inside": {"alpha": card.inside.alpha, "bandwidth": 1 / card.inside.beta},
        "between": {"alpha": card.between.alpha, "bandwidth": 1 / card.between.beta},
        "source": card.source,
    }


def layout_entry(plan: Plan) -> dict[str, Any]:
    """One layout: its set-up, memory and time with formulas, what follows from them."""
    setup = plan.setup
    return {
        "layout": words(setup),
        **setup_entry(setup),
        "ranks": setup.ranks,
        "batch_tokens": plan.batch_tokens,
        "fullest_stage": plan.stage,
        "memory": {"total_gb": plan.memory.total / GB, "parts": _parts(plan.memory, "gb", GB)},
        "fits": plan.fits,
        "step": {"seconds": plan.time.total, "parts": _parts(plan.time, "seconds", 1.0)},
        "tokens_per_second": plan.tokens_per_second,
        "mfu": plan.mfu,
        "bubble": idle_share(setup.pp, setup.microbatches),
    }


def setup_entry(setup: Setup) -> dict[str, Any]:
    """The fields of a set-up that a search chooses."""
    chosen = (
        *("pp", "dp", "tp", "zero", "shard", "sequences", "microbatches"),
        *("schedule", "checkpointing", "precision", "reshard"),
    )
    return {name: getattr(setup, name) for name in chosen}


def tracked_entry(tracked: Tracked) -> dict[str, Any]:
    """What fake ranks held, and the formula beside it."""
    formula = tracked.formula
    return {
        "ranks": tracked.ranks,
        "input": list(tracked.sizes),
        "wrapped": tracked.layers,
        "peak_gb": tracked.peak / GB,
        "parts_gb": {name: size / GB for name, size in tracked.parts.items()},
        "formula": None
        if formula is None
        else {"total_gb": formula.total / GB, "parts": _parts(formula, "gb", GB)},
        "difference": tracked.difference if formula else None,
        "seconds": tracked.seconds,
        "torch": tracked.torch,
    }


def assumptions_entry(assumed: Assumptions) -> dict[str, float]:
    """Each stated number that no data sheet has."""
    return {each.name: getattr(assumed, each.name) for each in fields(assumed)}


def words(setup: Setup) -> str:
    """A layout for people: "pp=2,dp=4,tp=8 ZeRO 1, 8 x 1, checkpointed".

    8 x 1 are microbatches and their sequences; checkpointed: each layer, or selective.
    """
    said = str(setup.layout)
    if setup.dp > 1:
        said += f" ZeRO {setup.zero}"
        if setup.zero and setup.sharing < setup.dp:
            said += f" in groups of {setup.sharing}"
    said += f", {setup.microbatches} x {setup.sequences}"
    how = {"none": "", "layers": ", checkpointed"}
    return said + how.get(setup.checkpointing, f", {setup.checkpointing}")


def _parts(terms: Terms, unit: str, scale: float) -> dict[str, dict[str, Any]]:
    return {
        name: {unit: term.value / scale, "formula": term.formula} for name, term in terms.items()
    }
