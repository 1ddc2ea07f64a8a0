"""What one sees when ranks go wrong, what it means, and the cell of the book that cures it."""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.symptoms.command import add_command
    from rankbook.symptoms.entries import Symptom, every
    from rankbook.symptoms.matching import find, pointer

__getattr__, __dir__ = attach(__name__, __file__)
