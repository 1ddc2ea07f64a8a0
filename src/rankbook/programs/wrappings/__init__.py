"""Every wrapping of a pipeline's stages under every schedule, tried with the torch that is here.

python -m rankbook.programs.wrappings --schedule zbv 1f1b --microbatches 4
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.programs.wrappings.run import main

__getattr__, __dir__ = attach(__name__, __file__)
