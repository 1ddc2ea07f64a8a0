"""Recipes: one training run as data, each one switch away from the recipe it builds on."""

import dataclasses
import difflib
import functools
import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankbook.speed.sizes import Size

# What each switch is called in a table, and the values it takes ("..." where any number does).
SWITCHES = {
    "batching": ("batching", ("longest of all", "longest of batch", "bucketed", "packed")),
    "attention": ("attention", ("eager", "sdpa")),
    "precision": ("number format", ("float32", "tf32", "fp16", "bf16")),
    "residual": ("residual stream", ("float32", "bf16")),
    "dropout": ("dropout", ("the model's", "none")),
    "compile": ("torch.compile", (None, "default", "dynamic", "reduce-overhead", "max-autotune")),
    "fused": ("fused Adam", (False, True)),
    "workers": ("loader workers", ...),
    "pinned": ("pinned memory", (False, True)),
    "bookkeeping": ("bookkeeping", ("every step", "seldom")),
    "batch_times": ("batch", ...),
    "rate_rule": ("rate rule", ("sqrt", "linear", "same")),
    "accumulate": ("microbatches", ...),
    "checkpointing": ("checkpointing", (False, True)),
    "runner": ("loop", ("loop", "lightning")),
}
# How far a step's loss may be from the float32 row of the same mathematics. 16-bit formats keep
# 8 (bf16) or 11 (fp16, tf32) binary digits of each number.
TOLERANCES = {"float32": 1e-5, "tf32": 2e-3, "fp16": 5e-3, "bf16": 3e-2}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The switches of one run; the defaults are the original's plain loop.

    `batch_times`: samples of an optimizer step, in batches of the size. `accumulate`: microbatches
    into which each of these is cut. `rate_rule`: how the learning rate follows `batch_times`.
    `residual`: the format between the layers. `dropout`: "none" is another training, declared.
    `workers`, `pinned`: the DataLoader's. `base`: the recipe it was made from; `side`: a branch,
    on which nothing else builds. Raises ValueError for a value that a switch does not take.
    """

    name: str
    about: str = ""
    base: str | None = None
    side: bool = False
    batching: str = "longest of all"
    attention: str = "eager"
    precision: str = "float32"
    residual: str = "float32"
    dropout: str = "the model's"
    compile: str | None = None
    fused: bool = False
    workers: int = 1
    pinned: bool = False
    bookkeeping: str = "every step"
    batch_times: int = 1
    rate_rule: str = "sqrt"
    accumulate: int = 1
    checkpointing: bool = False
    runner: str = "loop"

    def __post_init__(self):
        for switch, (_, values) in SWITCHES.items():
            value = getattr(self, switch)
            if values is ...:
                least = 0 if switch == "workers" else 1
                if value < least:
                    raise ValueError(f"{switch} is {value}; it must be {least} or more")
            elif value not in values:
                raise ValueError(f"{switch} {value!r} is unknown; use one of {values}")

    def batch(self, size: "Size") -> int:
        """Samples of one optimizer step."""
        return self.batch_times * size.batch

    @property
    def rate_times(self) -> float:
        """Factor of the learning rate for `batch_times` as large a batch.

        Averaging k times the samples makes the gradient's noise sqrt(k) times smaller. Adam
        divides by the gradient's own size, so its steps scale with the rate alone, and a rate
        sqrt(k) times as large keeps the noise of a pass over the data the same; for SGD that
        factor is k. Source: https://arxiv.org/abs/2205.10287 (which also moves the betas and
        epsilon; here they stay).
        """
        rules = {"sqrt": math.sqrt(self.batch_times), "linear": self.batch_times, "same": 1.0}
        return rules[self.rate_rule]

    def rate(self, size: "Size") -> float:
        """The learning rate."""
        return size.lr * self.rate_times

    @property
    def curve(self) -> Hashable:
        """Equal for recipes of equal mathematics: the same samples in each step, the same rate.

        At dropout 0 these lose the same at every step, up to `tolerance`.
        """
        order = "by length" if self.batching == "bucketed" else "random"
        return (order, self.batch_times, self.rate_times, self.dropout)

    @property
    def tolerance(self) -> float:
        """How far a step's loss may lie from the float32 row with the same `curve`, absolute."""
        return TOLERANCES[self.precision]

    def switches(self) -> dict[str, object]:
        """All switches by name."""
        return {switch: getattr(self, switch) for switch in SWITCHES}

    def replace(self, **changes) -> "Recipe":
        """A recipe of one's own; it keeps the name unless one is given."""
        return dataclasses.replace(self, **changes)


def changed(recipe: Recipe, base: Recipe) -> dict[str, list]:
    """The switches that differ: their name, then the value before and the value after."""
    before, after = base.switches(), recipe.switches()
    return {s: [before[s], after[s]] for s in SWITCHES if before[s] != after[s]}


# Name, what it builds on, what changes, in one line: in the order in which a table shows them.
_FULL = (
    ("plain", None, {}, "padded to 512, 32 bits, accuracy and eval() in every step: the original"),
    ("seldom", "plain", {"bookkeeping": "seldom"}, "train() once, no accuracy while training"),
    ("lightning", "seldom", {"runner": "lightning"}, "the same under Lightning's Trainer"),
    ("longest of batch", "seldom", {"batching": "longest of batch"}, "padded less"),
    ("bucketed", "longest of batch", {"batching": "bucketed"}, "like lengths share a batch"),
    ("packed", "bucketed", {"batching": "packed"}, "no padding: a batch is one long row"),
    ("sdpa", "packed", {"attention": "sdpa"}, "attention in one kernel, no scores in memory"),
    ("tf32", "sdpa", {"precision": "tf32"}, "matmuls round what they read to 10 bits"),
    ("fp16", "tf32", {"precision": "fp16"}, "matmuls in float16, the loss scaled"),
    ("bf16", "tf32", {"precision": "bf16"}, "matmuls in bfloat16, weights and Adam in 32 bits"),
    ("bf16 residual", "bf16", {"residual": "bf16"}, "what flows between layers in bfloat16 too"),
    ("no dropout", "bf16 residual", {"dropout": "none"}, "another training: then varlen_attn runs"),
    ("compile", "no dropout", {"compile": "default"}, "torch.compile as it comes"),
    ("compile dynamic", "compile", {"compile": "dynamic"}, "lengths are symbols from the start"),
    ("CUDA graphs", "compile", {"compile": "reduce-overhead"}, "kernels recorded, then replayed"),
    ("fused", "compile", {"fused": True}, "Adam's update in one kernel"),
    ("workers", "fused", {"workers": 4}, "four processes prepare batches"),
    ("pinned", "workers", {"pinned": True}, "batches in page-locked memory"),
    ("4x batch", "pinned", {"batch_times": 4}, "four times the samples, twice the rate"),
    ("4x, same rate", "4x batch", {"rate_rule": "same"}, "the rate of the small batch"),
    ("accumulation", "4x batch", {"accumulate": 4}, "the same batch in four microbatches"),
    ("checkpointing", "4x batch", {"checkpointing": True}, "layers computed again going back"),
    ("16x batch", "4x batch", {"batch_times": 16}, "sixteen times the samples, 4x the rate"),
    ("64x batch", "16x batch", {"batch_times": 64}, "64 times the samples, 8x the rate"),
    ("max-autotune", "64x batch", {"compile": "max-autotune"}, "the fastest of several kernels"),
)
# A CPU without 16-bit instructions is several times slower in them, and compiling takes longer
# than a short run: there both are sides, and what follows on the main line builds on float32.
_CPU_BASES = dict.fromkeys(("bf16", "fp16", "compile", "fused"), "sdpa")
_CPU_BASES |= {"4x batch": "workers", "max-autotune": "compile"}
_NOT_ON_CPU = ("no dropout", "16x batch", "64x batch")  # the size cpu has no dropout to leave out
_CPU_CHANGES = {"workers": ({"workers": 2}, "two processes prepare batches")}
_LAST = {"cpu": "4x batch", "full": "max-autotune"}


def _steps(size_name: str) -> list[tuple]:
    if size_name == "full":
        return list(_FULL)
    steps = []
    for name, base, changes, about in _FULL:
        changes, about = _CPU_CHANGES.get(name, (changes, about))
        steps.append((name, _CPU_BASES.get(name, base), changes, about))
    return [step for step in steps if step[0] not in _NOT_ON_CPU]


@functools.cache
def ladder(size_name: str = "full") -> tuple[Recipe, ...]:
    """The recipes for the size "cpu" or "full", in order; each is one switch from its base.

    The main line is the last recipe and all that it builds on; the others are sides.
    Raises ValueError for another size.
    """
    if size_name not in _LAST:
        raise ValueError(f"there is no ladder {size_name!r}; use {' or '.join(_LAST)}")
    made = {}
    for name, base, changes, about in _steps(size_name):
        fields = made[base].switches() if base else {}
        made[name] = Recipe(**fields | changes | {"name": name, "base": base, "about": about})
    main, name = set(), _LAST[size_name]
    while name:
        main.add(name)
        name = made[name].base
    return tuple(recipe.replace(side=recipe.name not in main) for recipe in made.values())


LADDER = ladder()


def recipe(name: str, size_name: str = "full") -> Recipe:
    """The recipe `name` of the ladder "cpu" or "full". Raises ValueError for an unknown name."""
    recipes = {r.name: r for r in ladder(size_name)}
    if name not in recipes:
        near = difflib.get_close_matches(name, recipes, 3, 0.5) or list(recipes)
        raise ValueError(
            f"recipe {name!r} is unknown on the ladder {size_name!r}; did you mean "
            f"{' or '.join(map(repr, near))}?"
        )
    return recipes[name]
