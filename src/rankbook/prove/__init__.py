"""A training step beside one process: is what these ranks compute what one of them would?"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.prove.proof import prove
    from rankbook.prove.report import Difference, Report

__getattr__, __dir__ = attach(__name__, __file__)
