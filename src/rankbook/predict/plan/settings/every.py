"""All programs that a plan can be written for, by the name that the JSON document uses."""

from collections.abc import Callable

from rankbook.predict.plan.search import Plan
from rankbook.predict.plan.settings.book import of_book
from rankbook.predict.plan.settings.for_deepspeed import of_deepspeed
from rankbook.predict.plan.settings.for_fsdp2 import of_fsdp2
from rankbook.predict.plan.settings.for_megatron import of_megatron
from rankbook.predict.plan.settings.for_torchtitan import of_torchtitan
from rankbook.predict.plan.settings.said import Settings

EVERY: dict[str, Callable[[Plan], Settings]] = {
    "book": of_book,
    "torchtitan": of_torchtitan,
    "megatron": of_megatron,
    "deepspeed": of_deepspeed,
    "fsdp2": of_fsdp2,
}


def settings_of(plan: Plan) -> dict[str, Settings]:
    """The plan for each program."""
    return {name: function(plan) for name, function in EVERY.items()}
