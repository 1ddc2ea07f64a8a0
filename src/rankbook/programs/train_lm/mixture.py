"""The options of a model with experts: how many, how many of them a token goes through, balance."""

from dataclasses import dataclass
from typing import Any

from rankbook.programs.number_types import positive_float, positive_int
from rankbook.programs.options import option

EXPERTS, TOP_K = 8, 2  # where --mesh has ep and nothing else is said
BALANCE = ("none", "loss", "bias")
WEIGHT = 1e-2  # of the balance loss, as in https://arxiv.org/abs/2101.03961
# of the biases' steps: https://arxiv.org/abs/2408.15664 takes 1e-3, for many thousands of them, and
# in the first hundred that hardly changes who is chosen
RATE = 1e-2
# a run that goes on must have them as they were
DECIDING = ("experts", "top_k", "capacity", "balance")


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """The experts of a layer: none if 0, and the rest is None then."""

    experts: int = option(
        positive_int, 0, metavar="N",
        help=f"of each layer, in place of its perceptron ({EXPERTS} if --mesh has ep, otherwise "
        "none)",
    )  # fmt: skip
    top_k: int | None = option(
        positive_int, metavar="N", help=f"experts that a token goes through ({TOP_K})"
    )
    capacity: float | None = option(
        positive_float, metavar="FACTOR",
        help="of an expert, in equal shares of a row's tokens, 1.25 for example: choices beyond it "
        "are dropped (nothing is)",
    )  # fmt: skip
    balance: str | None = option(choices=BALANCE, help="what keeps experts equally busy (bias)")


def complete_mixture(parsed: Any) -> dict[str, Any]:
    """The options of `DECIDING`, completed. Raises ValueError where there are no experts."""
    words = (word.partition("=")[0].strip() for word in (parsed.mesh or "").split(","))
    experts = parsed.experts or (EXPERTS if "ep" in words else 0)
    if not experts:
        for name in DECIDING[1:]:
            if getattr(parsed, name) is not None:
                flag = f"--{name.replace('_', '-')}"
                raise ValueError(
                    f"{flag} is of experts, and this model has none; add --experts {EXPERTS}, "
                    f"or leave out {flag}"
                )
        return {}
    return {
        "experts": experts,
        "top_k": parsed.top_k or min(TOP_K, experts),
        "capacity": parsed.capacity,
        "balance": parsed.balance or "bias",
    }


def in_config(options: Mixture) -> dict[str, Any]:
    """What a `TransformerConfig` says of experts."""
    if not options.experts:
        return {}
    return {
        "experts": options.experts,
        "top_k": options.top_k,
        "capacity": options.capacity,
        "balance_weight": WEIGHT * (options.balance == "loss"),
        "bias_rate": RATE * (options.balance == "bias"),
    }


def check_mixture(options: Mixture, compiled: bool, microbatches: int) -> None:
    """Raise ValueError for what cannot be trained with experts."""
    if options.experts and compiled:
        raise ValueError(
            "--compile does not go with experts: how many tokens each gets is known only when it "
            "gets them; leave out --compile"
        )
    if options.balance == "loss" and microbatches > 1:
        raise ValueError(
            "--balance loss counts the tokens of the whole batch, and a layer sees one microbatch "
            f"after the other, of {microbatches}; use --balance bias or none"
        )


def mixture_invariants(options: Mixture) -> dict[str, Any]:
    """The options that a run has to keep when it goes on; None without experts."""
    return {name: getattr(options, name) or None for name in DECIDING}
