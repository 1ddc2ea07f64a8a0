"""Why a layout lost: one sentence, from the terms in which it differs from the best."""

from rankbook.predict.memory.terms import Terms
from rankbook.predict.plan.search import Plan, Plans

GB = 1e9
WHAT = {  # of memory, then of time
    "parameters": "parameters",
    "gradients": "gradients",
    "optimizer": "the optimizer's state",
    "gathered": "gathered parameters",
    "buffers": "buffers of messages",
    "activations": "activations",
    "logits": "logits",
    "workspace": "workspace",
    "compute": "arithmetic",
    "recompute": "computing activations anew",
    "elementwise": "norms, activations and the loss, bound by memory",
    "tensor": "messages of tensor parallelism",
    "pipeline": "messages between stages",
    "bubble": "waiting for other stages",
    "replicas": "messages among replicas",
    "update": "the optimizer's update",
}


def why_it_lost(plan: Plan, best: Plan | None) -> str:
    """One sentence: what does not fit, or what takes longer than in `best`, for the same tokens."""
    if not plan.fits:
        need, room = plan.memory.total / GB, plan.machines.usable / GB
        name, size = _largest(plan.memory)
        short = need - room
        if short < 1:  # 139 of 139 says little
            return f"lacks {short:.2g} GB: needs {need:.1f} GB, {WHAT[name]} {size / GB:.0f} GB"
        return f"needs {need:.0f} GB of {room:.0f} GB: {WHAT[name]} alone {size / GB:.0f} GB"
    if best is None or plan == best:
        return "is the fastest that fits"
    slower = best.tokens_per_second / plan.tokens_per_second - 1
    name = _cause(plan, best)
    share = plan.time[name].value / plan.time.total
    said = f"{slower:.0%} slower: {share:.0%} of its step goes to {WHAT[name]}"
    said += _between_nodes(plan, name)
    if name == "compute" and plan.setup.pp > 1:
        said += ": its slowest stage has the head besides its layers"
    return said


def telling_losers(plans: Plans, most: int = 5) -> list[tuple[Plan, int]]:
    """Of the losers, the first of each cause, at `most` so many, each with how many share it."""
    found: dict[tuple[bool, str], list[Plan]] = {}
    for plan in plans.losers:
        cause = _cause(plan, plans.best[0]) if plan.fits else _largest(plan.memory)[0]
        found.setdefault((plan.fits, cause), []).append(plan)
    return [(alike[0], len(alike)) for alike in found.values()][:most]


def _between_nodes(plan: Plan, name: str) -> str:
    """Where the messages of the term `name` leave a node, and what limits them there."""
    setup, machines = plan.setup, plan.machines
    block = {"tensor": setup.tp, "replicas": setup.dp * setup.tp}.get(name, 1)
    if block <= machines.node and (machines.gpus <= machines.node or machines.node % block == 0):
        return ""
    replicas = setup.sharing if setup.zero else setup.dp
    ring = machines.link(setup.tp) if name == "tensor" else machines.link(replicas, setup.tp)
    inside = machines.card.inside.beta / machines.assumed.link
    return ", between nodes" + " (limited by the link inside a node)" * (ring.beta <= inside)


def _cause(plan: Plan, best: Plan) -> str:
    """The term of the time in which `plan` loses most against `best`, for the same tokens."""
    extra = {
        name: term.value / plan.batch_tokens - best.time[name].value / best.batch_tokens
        for name, term in plan.time.items()
    }
    return max(extra, key=lambda each: extra[each])


def _largest(terms: Terms) -> tuple[str, float]:
    name = max(terms, key=lambda each: terms[each].value)
    return name, terms[name].value
