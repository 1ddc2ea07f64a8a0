"""A layout in the words of the programs that run it: the book's, torchtitan, Megatron and others.

A function takes a `Plan` and returns `Settings`: what to write there, and what it cannot say.
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.predict.plan.settings.book import of_book
    from rankbook.predict.plan.settings.every import EVERY, settings_of
    from rankbook.predict.plan.settings.for_deepspeed import of_deepspeed
    from rankbook.predict.plan.settings.for_fsdp2 import of_fsdp2
    from rankbook.predict.plan.settings.for_megatron import of_megatron
    from rankbook.predict.plan.settings.for_torchtitan import of_torchtitan
    from rankbook.predict.plan.settings.said import Settings

__getattr__, __dir__ = attach(__name__, __file__)
