"""The sizes of the experiment: model, samples and settings that all recipes share."""

from dataclasses import dataclass, fields, replace

from rankbook.models.classifier import ClassifierConfig


@dataclass(frozen=True)
class Size:
    """What stays the same while recipes differ. Raises ValueError.

    samples, validation, test: the rows of each split, its first ones. batch, lr, epochs: those of
    the plain recipe, with Adam. pretrained: whether to begin with DistilBERT's own weights.
    """

    name: str
    model: ClassifierConfig
    samples: int
    validation: int
    test: int
    batch: int = 12
    lr: float = 5e-5
    epochs: int = 3
    pretrained: bool = False

    def __post_init__(self):
        for name in ("samples", "validation", "test", "batch", "epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be 1 or more")

    @property
    def max_length(self) -> int:
        """The tokens that a text is cut at."""
        return self.model.max_length

    @property
    def splits(self) -> dict[str, int]:
        """The rows of each split by its name."""
        return {"train": self.samples, "validation": self.validation, "test": self.test}

    def without_dropout(self) -> "Size":
        """The same size with a model that drops nothing."""
        none = {"dropout": 0.0, "attention_dropout": 0.0, "head_dropout": 0.0}
        return replace(self, model=replace(self.model, **none))


# "full" is the third original's. "cpu" is so small that some steps take a second or two, and three
# epochs learn something; without dropout, recipes of the same mathematics have the same losses.
SIZES = {
    "cpu": Size(
        "cpu",
        ClassifierConfig(
            d_model=96,
            d_hidden=384,
            heads=2,
            layers=2,
            dropout=0.0,
            attention_dropout=0.0,
            head_dropout=0.0,
        ),
        samples=960,
        validation=240,
        test=480,
        lr=5e-4,
    ),
    "full": Size(
        "full", ClassifierConfig(), samples=35_000, validation=5_000, test=10_000, pretrained=True
    ),
}


def size(name: str, **changes) -> Size:
    """The size "cpu" or "full"; changes: fields of `Size`, or of its model, that shall differ.

    Raises ValueError for another name or field.
    """
    if name not in SIZES:
        raise ValueError(f"size {name!r} is unknown; use {' or '.join(SIZES)}")
    found = SIZES[name]
    own = {field.name for field in fields(Size)} - {"name", "model"}
    of_model = {field.name for field in fields(ClassifierConfig)}
    for change in changes:
        if change not in own | of_model:
            known = ", ".join(sorted(own | of_model))
            raise ValueError(f"a size has no field {change!r}; use one of {known}")
    model = replace(found.model, **{k: v for k, v in changes.items() if k in of_model})
    return replace(found, model=model, **{k: v for k, v in changes.items() if k in own})
