"""Does a model on ranks have the gradients of the same model in one process?

Asked of every data-parallel wrapping of a pipeline's stages, and of every layout of a mesh.
"""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.parallel.trials.layout_trials import try_layout
    from rankbook.parallel.trials.mechanisms import MECHANISMS, Mechanism, why_wrong
    from rankbook.parallel.trials.outcomes import Outcome
    from rankbook.parallel.trials.variants import LAYOUT_VARIANTS
    from rankbook.parallel.trials.wrapping_trials import try_wrapping
    from rankbook.parallel.trials.wrappings import WRAPPINGS, wrap

__getattr__, __dir__ = attach(__name__, __file__)
