"""The models that the book trains."""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach
from rankbook.models.transformer import TransformerConfig, TransformerLM, initialise, preset

# imported when asked for: live ranks import this package early
if TYPE_CHECKING:
    from rankbook.models.classifier import Classifier, ClassifierConfig
    from rankbook.models.loss import token_loss
    from rankbook.models.pretrained import load_pretrained

__getattr__, __dir__ = attach(__name__, __file__)
