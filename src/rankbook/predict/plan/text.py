"""A plan as text: the three best, why the others lose, and where each number comes from."""

import textwrap
from collections.abc import Iterator

from rankbook.predict.memory.states import widths
from rankbook.predict.plan.answer import Answer
from rankbook.predict.plan.document import GB, words
from rankbook.predict.plan.model import Model
from rankbook.predict.plan.quantities import short
from rankbook.predict.plan.reasons import telling_losers, why_it_lost
from rankbook.predict.plan.search import Plan, Plans
from rankbook.predict.plan.settings.every import EVERY, settings_of
from rankbook.predict.plan.step import idle_share
from rankbook.predict.plan.text_numbers import (
    assumptions,
    digits,
    formulas,
    memory_table,
    tracked_lines,
    wrapped,
)


def as_text(found: Answer, program: str = "") -> str:
    """All sections, the three best first.

    program: whose settings are printed in full, a name of `EVERY`, or all; the others in brief.
    """
    parts = [list(heading(found)), list(states(found))]
    plans = found.plans
    if plans is not None:
        parts.append(list(best_layouts(plans) if plans.best else nothing_fits(plans)))
        if plans.best:
            parts.append(list(why(plans)))
        parts.append(list(memory_table(plans)))
        first = plans.best[0] if plans.best else plans.smallest
        parts += [list(formulas(first)), list(assumptions(found.machines.assumed))]
        if plans.best:
            parts.append(list(all_settings(first, program)))
    if found.tracked is not None:
        parts.insert(2, list(tracked_lines(found.tracked)))
    return "\n\n".join("\n".join(part) for part in parts)


def heading(found: Answer) -> Iterator[str]:
    """What was planned for, and what had to be assumed."""
    machines = found.machines
    nodes = -(-machines.gpus // machines.node)
    on = f"{machines.gpus} x {machines.card.name}"
    on += f" in {nodes} nodes" if nodes > 1 else ""
    batch = f", {found.batch_tokens:,} tokens a step" if found.plans else ""
    yield f"{found.model.name} on {on}{batch}"
    if found.plans:
        yield wrapped("  model     ", _shape(found.model))
    for sentence in found.model.assumed:
        yield wrapped("  assumed   ", sentence)


def _shape(model: Model) -> str:
    shape = model.shape
    kv = f" ({shape.kv_heads} of keys)" if shape.kv_heads else ""
    layers = f"{shape.layers} layer{'s' * (shape.layers > 1)}"
    return (
        f"{short(model.parameters)} parameters: {layers}, {shape.hidden} wide, "
        f"{shape.heads} heads{kv}, {shape.feed_forward} in between, vocabulary {shape.vocabulary:,}"
    )


def states(found: Answer) -> Iterator[str]:
    """The states that each ZeRO stage leaves on a rank."""
    width, n = widths("bf16"), found.machines.gpus
    yield f"States of a rank in GB, Adam in mixed precision, by ZeRO stage over all {n} ranks"
    p, g, s = width.parameter, width.gradient, width.state
    cuts = (f"({p} + {g} + {s}) P", f"({p} + {g} + {s}/n) P")
    cuts += (f"({p} + ({g} + {s})/n) P", f"({p} + {g} + {s}) P/n")
    for (zero, size), formula in zip(found.states.items(), cuts, strict=True):
        yield f"  {zero}  {digits(size / GB):>8}   {formula}"


def best_layouts(plans: Plans) -> Iterator[str]:
    """The three best, a line each."""
    room, fit = plans.best[0].machines.usable / GB, len(plans.fitting)
    yield f"The best of {len(plans.all)} layouts; {fit} fit into {room:.0f} GB a card"
    names = f"{'GB':>6} {'s':>6} {'tokens/s':>10}  MFU bubble"
    yield f"  {'layout, microbatches x sequences':<43} {names}"
    for number, plan in enumerate(plans.best, 1):
        setup = plan.setup
        idle = idle_share(setup.pp, setup.microbatches)
        size, seconds = digits(plan.memory.total / GB), digits(plan.time.total)
        yield (
            f"  {number}. {words(setup):<40} {size:>6} {seconds:>6} "
            f"{plan.tokens_per_second:10,.0f} {plan.mfu:4.0%} {idle:6.0%}"
        )


def nothing_fits(plans: Plans) -> Iterator[str]:
    """What is nearest."""
    plan = plans.smallest
    room = plan.machines.usable / GB
    yield f"None of {len(plans.all)} layouts fits into {room:.0f} GB a card"
    yield wrapped("  nearest   ", f"{words(plan.setup)}: {why_it_lost(plan, None)}")
    cures = "more GPUs (--gpus), a card with more memory (--gpu), shorter sequences (--sequence)"
    yield wrapped("  try       ", cures)


def why(plans: Plans) -> Iterator[str]:
    """A sentence for each cause for which layouts lose, with the best of those that do."""
    yield "Why the others lose"
    told, said = telling_losers(plans), 0
    for plan, alike in told:
        reason = why_it_lost(plan, plans.best[0])
        more = f" (so for {alike - 1} more)" if alike > 1 else ""
        yield wrapped("  ", f"{words(plan.setup)}: {reason}{more}", "      ")
        said += alike
    if said < len(plans.losers):
        yield f"  and {len(plans.losers) - said} more kinds, in --json"


def all_settings(plan: Plan, program: str = "") -> Iterator[str]:
    """The layout in each program's words, in full for `program`, or for all."""
    yield f"{words(plan.setup)} in the words of"
    for name, settings in settings_of(plan).items():
        yield f"  {settings.program}"
        full = program in (name, "all")
        yield textwrap.indent(settings.text if full else settings.brief, "    ")
        for sentence in settings.unsaid:
            yield wrapped("    # ", sentence, "    # ")
    if program != "all":
        others = "|".join(name for name in EVERY if name != "book")
        yield f"  With imports, the model's sizes and all options: --for {others}|all"
