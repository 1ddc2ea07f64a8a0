"""The model of a plan: its shape, how many parameters, and what had to be assumed of it."""

from dataclasses import dataclass, field

from rankbook.predict.memory.model_shape import ModelShape

SEQUENCE = 4096  # tokens of a sequence, where nothing says more


@dataclass(frozen=True)
class Model:
    """What `rankbook plan` plans for.

    name: for people, "llama of config.json". parameters: as given, or counted; those of the
    `shape` may differ a little. assumed: a sentence for each thing that was not said.
    """

    name: str
    shape: ModelShape
    parameters: int
    assumed: tuple[str, ...] = field(default=())
