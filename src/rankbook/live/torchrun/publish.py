"""Values that a rank of a launched program hands back to the notebook, and the notebook's view.

What crosses: plain values as JSON, tensors as a file that is read with ``weights_only=True``.
Nothing is unpickled that could run code. The files lie in the launch's own 0700 directory.
"""

import os
from collections.abc import Callable
from pathlib import Path

from rankbook.live.screen.output import label
from rankbook.live.torchrun.notes import next_name, read_notes, write_note

DIRECTORY = "RANKBOOK_PUBLISH"  # names the launch's directory to its ranks


def publish(**values) -> None:
    """Hand `values` of this rank back to the notebook that launched the program.

    In the notebook ``_.loss`` (or the name given with ``--into``) is then rank 0's ``loss``, and
    ``_.ranks[3].loss`` is rank 3's. Of two values with one name the later one counts.

    Numbers, strings, None, lists, tuples, dicts and tensors can be published, one inside the other.
    Tensors arrive on the CPU, without their graph. A NumPy array arrives as a tensor.
    Without a notebook (plain ``torchrun`` in a terminal) the values are printed.

    Raises TypeError, naming the value, for anything else.
    """
    tensors: list = []
    plain = {name: _encode(name, value, tensors) for name, value in values.items()}
    directory = os.environ.get(DIRECTORY)
    if directory is None:
        print(", ".join(f"{name} = {value}" for name, value in values.items()), flush=True)
        return
    place = {
        name: int(os.environ.get(name.upper(), n)) for name, n in (("rank", 0), ("world_size", 1))
    }
    path = Path(directory) / next_name()
    if tensors:
        import torch

        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(tensors, path.with_suffix(".pt"))
    write_note(path, place | {"values": plain})


def read_published(directory: Path) -> dict[str, dict]:
    """Everything the ranks of a launch published into `directory`, by the name of its file."""
    entries = read_notes(directory)
    for name, entry in entries.items():
        tensors = _load((Path(directory) / name).with_suffix(".pt"))
        entry["values"] = {key: _decode(v, tensors) for key, v in entry["values"].items()}
    return entries


def gather(entries: dict[str, dict]) -> "Published":
    """One result from what `read_published` gave, of one launch or of several."""
    ranks: dict[int, dict] = {}
    world_size = 0
    for _, entry in sorted(entries.items()):  # file names sort by time
        world_size = entry["world_size"]  # the last one: the world may have changed its size
        ranks.setdefault(entry["rank"], {}).update(entry["values"])
    return Published([RankValues(rank, ranks.get(rank, {})) for rank in range(world_size)])


class RankValues:
    """What one rank published: each value is an attribute."""

    def __init__(self, rank: int, values: dict):
        self._rank, self._values = rank, values

    def __getattr__(self, name: str):
        if name.startswith("_") or name not in self._values:
            published = ", ".join(self._values) or "nothing"
            raise AttributeError(
                f"rank {self._rank} did not publish {name!r}; it published {published}"
            )
        return self._values[name]

    def __dir__(self):
        return [*super().__dir__(), *self._values]

    def __repr__(self) -> str:
        return f"{label([self._rank])} {self._listing()}"

    def _listing(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self._values.items())
        return inside or "nothing published"


class Published:
    """What a launch published: ``result.loss`` is rank 0's, ``result.ranks[r].loss`` rank r's."""

    def __init__(self, ranks: list[RankValues]):
        self.ranks = ranks

    def __bool__(self) -> bool:
        return any(values._values for values in self.ranks)

    def __getattr__(self, name: str):
        if name.startswith("_") or name == "ranks":
            raise AttributeError(name)
        if self.ranks and name in self.ranks[0]._values:
            return self.ranks[0]._values[name]
        others = [values._rank for values in self.ranks if name in values._values]
        where = (
            f"ranks that did: {others}; use .ranks[{others[0]}].{name}"
            if others
            else "no other rank did; call rankbook.publish in the cell"
        )
        raise AttributeError(f"rank 0 did not publish {name!r}; {where}")

    def __dir__(self):
        return [*super().__dir__(), *(self.ranks[0]._values if self.ranks else ())]

    def __repr__(self) -> str:
        same: dict[str, list[int]] = {}
        for values in self.ranks:
            same.setdefault(values._listing(), []).append(values._rank)
        return "\n".join(f"{label(ranks)} {text}" for text, ranks in same.items())


def _load(path: Path) -> list:
    if not path.exists():
        return []
    import torch

    return torch.load(path, map_location="cpu", weights_only=True)


def _encode(name: str, value, tensors: list):
    """JSON for `value`; containers and tensors become one-entry dicts that say what they are."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):  # also NumPy's float64, which is a float
        return float(value) if isinstance(value, float) else int(value)
    if isinstance(value, list):
        return [_encode(name, entry, tensors) for entry in value]
    if isinstance(value, tuple):
        return {"tuple": [_encode(name, entry, tensors) for entry in value]}
    if isinstance(value, dict):
        pairs = [[_encode(name, k, tensors), _encode(name, v, tensors)] for k, v in value.items()]
        return {"dict": pairs}
    tensors.append(_as_tensor(name, value))
    return {"item" if _is_numpy_scalar(value) else "tensor": len(tensors) - 1}


def _decode(value, tensors: list):
    if isinstance(value, list):
        return [_decode(entry, tensors) for entry in value]
    if not isinstance(value, dict):
        return value
    ((kind, inside),) = value.items()
    kinds: dict[str, Callable] = {
        "tuple": lambda: tuple(_decode(entry, tensors) for entry in inside),
        "dict": lambda: {_decode(k, tensors): _decode(v, tensors) for k, v in inside},
        "item": lambda: tensors[inside].item(),
        "tensor": lambda: tensors[inside],
    }
    return kinds[kind]()


def _is_numpy_scalar(value) -> bool:
    return type(value).__module__ == "numpy" and getattr(value, "shape", None) == ()


def _as_tensor(name: str, value):
    import torch

    if hasattr(value, "full_tensor"):  # gathering a DTensor is a collective: the caller's choice
        raise TypeError(
            f"publish: {name} is a DTensor; publish {name}.full_tensor() (on every rank) "
            f"or {name}.to_local()"
        )
    if type(value).__module__ == "numpy":
        try:
            return torch.as_tensor(value).clone()
        except TypeError:
            pass  # an array of strings or objects: the sentence below
    if isinstance(value, torch.Tensor) and value.device.type != "meta":
        # A clone: saving a view would save the whole storage behind it.
        return value.detach().to("cpu", copy=True).contiguous()
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise TypeError(
        f"publish: {name} holds a {kind}, which cannot be handed to the notebook; publish numbers, "
        "strings, lists, tuples, dicts or tensors"
    )
