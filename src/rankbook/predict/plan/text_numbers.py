"""The numbers of a plan as text: memory by layout, each with its formula, what was assumed."""

import textwrap
from collections.abc import Iterator
from dataclasses import fields

from rankbook.predict.memory.terms import Terms
from rankbook.predict.plan.accuracy import summary
from rankbook.predict.plan.document import GB, words
from rankbook.predict.plan.fake_ranks import Tracked
from rankbook.predict.plan.machines import Assumptions
from rankbook.predict.plan.reasons import telling_losers
from rankbook.predict.plan.search import Plan, Plans

WIDTH = 80
SHORT = {"parameters": "param", "gradients": "grad", "optimizer": "optim", "gathered": "whole"}
SHORT |= {"buffers": "buf", "activations": "activ", "workspace": "work", "logits": "logit"}
NEAR = 0.1
UNUSED = "none of these measurements was used above"
NOT_TRIED = (
    "interleaved stages (with more than a tenth of bubble they are worth trying), ZeRO 3 that "
    "stays gathered, context parallelism, offloading"
)
APART = (
    "The formula is of a decoder with fused norms and attention, without dropout, whose loss keeps "
    "its logits three times in 32 bits. Where your model is another, trust what was tracked: the "
    "states below are right, activations and logits are the formula's."
)
LETTERS = (
    "P parameters a rank computes with, n ranks that share them, L layers of a rank, b or t tokens "
    "of a microbatch, m microbatches, h hidden, q and k columns of queries and keys, f of the "
    "perceptron, V vocabulary; /t in a size: by tensor parallelism"
)


def memory_table(plans: Plans) -> Iterator[str]:
    """Memory of the fullest rank, by part, of the best and of what lost."""
    others = [plan for plan, _ in telling_losers(plans)] if plans.best else plans.losers[:3]
    shown = [*plans.best, *others]
    parts = [n for n in shown[0].memory if any(p.memory[n].value >= GB / 20 for p in shown)]
    yield "Memory of the fullest rank in GB"
    yield "  (whole: gathered parameters; buf: messages on their way; work: of a layer at work)"
    yield f"  {'':<34}" + "".join(f"{SHORT.get(name, name):>6}" for name in ["all", *parts])
    for plan in shown:
        values = [plan.memory.total, *(plan.memory[name].value for name in parts)]
        more = "" if plan.fits else "  too much"
        yield f"  {_narrow(words(plan.setup), 34)}" + "".join(_gb(v) for v in values) + more


def formulas(plan: Plan) -> Iterator[str]:
    """Every number of one layout with its formula."""
    setup = plan.setup
    yield f"Where the numbers of {words(setup)} come from"
    yield wrapped("  letters   ", LETTERS)
    yield from _terms("GB", plan.memory, GB)
    yield from _terms("s", plan.time, 1.0)
    yield f"  {plan.tokens_per_second:9,.0f}  tokens/s     {plan.batch_tokens:,} tokens / step"
    yield f"  {plan.mfu:9.0%}  MFU          flops of a token x tokens/s / (GPUs x peak)"


def assumptions(assumed: Assumptions) -> Iterator[str]:
    """The stated numbers, and how far off they were for others."""
    numbers = ", ".join(f"{f.name} {getattr(assumed, f.name):g}" for f in fields(assumed))
    yield "Assumed, as no data sheet has it"
    yield wrapped("  shares    ", numbers)
    yield wrapped("  not tried ", NOT_TRIED)
    told = summary()
    for kind, what in (("time", "step time"), ("memory", "memory")):
        found = told[kind]["held out"]
        rows, others = found["rows"], found["sources"]
        off = f"{what}: off by {found['median']:.0%} in the median of {rows:.0f} measurements"
        yield wrapped("  accuracy  ", f"{off} of {others:.0f} published sources; {UNUSED}")
    constant, order = told["time"]["constant"], told["time"]["order"]
    off = f"one MFU for all, {constant['mfu']:.0%}, would be off by {constant['median']:.0%}"
    yield wrapped("  baseline  ", f"step time: {off} in the median of the same measurements")
    pairs = f"{order['right']} of {order['pairs']} pairs of set-ups come out in the right order"
    alone = f"by arithmetic alone {order['by arithmetic']}, by one MFU none"
    yield wrapped("  order     ", f"{pairs} ({alone}): a plan says what to try first")


def tracked_lines(tracked: Tracked) -> Iterator[str]:
    """What torch's tracker saw on fake ranks, beside the formula."""
    sizes = " x ".join(map(str, tracked.sizes))
    yield f"One of {tracked.ranks} fake ranks, input {sizes}, FSDP2 of {tracked.layers}"
    yield f"  {digits(tracked.peak / GB):>8} GB tracked by torch {tracked.torch}"
    if tracked.formula is not None:
        total = digits(tracked.formula.total / GB)
        yield f"  {total:>8} GB by formula, {tracked.difference:+.1%}"
        if abs(tracked.difference) > NEAR:
            yield wrapped("  ", APART)
        yield from _terms("GB", tracked.formula, GB)
    shown = (f"{n} {digits(v / GB)}" for n, v in tracked.parts.items() if v >= tracked.peak / 1000)
    yield wrapped("  torch     ", ", ".join(shown))


def _terms(unit: str, terms: Terms, scale: float) -> Iterator[str]:
    yield f"  {digits(terms.total / scale):>9}  {unit:<12} the sum of"
    for name, term in terms.items():
        if term.value:
            yield f"  {digits(term.value / scale):>9}  {name:<12} {term.formula}"


def digits(value: float) -> str:
    """Three digits, or the whole part."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}"


def _gb(value: float) -> str:
    return f"{value / GB:6.1f}"


def _narrow(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"


def wrapped(start: str, text: str, after: str | None = None) -> str:
    """Lines of the width, the first after `start`, the others after `after` or as far in."""
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=start,
        subsequent_indent=" " * len(start) if after is None else after,
        break_on_hyphens=False,
        break_long_words=False,
    )
