"""Where every recipe starts: the same weights for a size and a seed."""

import functools

from torch import Tensor

from rankbook.models.classifier import Classifier
from rankbook.models.pretrained import load_pretrained
from rankbook.speed.sizes import Size


def init_model(size: Size, seed: int = 0, **options) -> tuple[Classifier, str]:
    """The model of `size` with its first weights, and a line that says where they come from.

    They are DistilBERT's where the size asks for them and there are any, with a new head, and
    random otherwise. options: those of `Classifier`, which change no weight.
    """
    weights, source = _first_weights(size, seed)
    model = Classifier(size.model, **options)
    model.load_state_dict(weights)
    return model, source


@functools.lru_cache(maxsize=2)  # a ladder asks twenty times, with dropout or without
def _first_weights(size: Size, seed: int) -> tuple[dict[str, Tensor], str]:
    model = Classifier(size.model).initialise(seed)
    source = load_pretrained(model) if size.pretrained else f"random weights of seed {seed}"
    return model.state_dict(), source
