"""Values between notebook and ranks: only when asked for, through files in the private directory.

Tensors travel to the CPU. The ranks are this notebook's own processes and run its code, so what
is no plain value may come as a pickle; nothing else ever does.
"""

from pathlib import Path

import torch

from rankbook.live.errors import UsageError


def save(value, path: str, name: str) -> None:
    """Write `value` to `path`; raises UsageError if it cannot leave its process."""
    try:
        torch.save(_on_cpu(value), path)
    except Exception as error:  # pickling runs the object's own code: anything may come
        Path(path).unlink(missing_ok=True)
        kind = type(value).__name__
        raise UsageError(f"{name!r} is a {kind}, which cannot be sent: {error}") from None


def load(path: str, name: str, home: str = "on the ranks"):
    """Read a value that `save` wrote, and remove the file. `home`: where the value comes from."""
    try:
        return torch.load(path, map_location="cpu", weights_only=False)
    except (AttributeError, ModuleNotFoundError) as error:
        raise UsageError(
            f"{name!r} is of a class that exists only {home} ({error}); "
            "send plain values or tensors, such as a state_dict()"
        ) from None
    finally:
        Path(path).unlink(missing_ok=True)


def export(namespace: dict, name: str, path: str) -> None:
    """On a rank: save the variable `name`."""
    if name not in namespace:
        raise NameError(f"name {name!r} is not defined")
    save(namespace[name], path, name)


def _on_cpu(value):
    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if type(value) in (list, tuple):
        return type(value)(_on_cpu(v) for v in value)
    if type(value) is dict:
        return {k: _on_cpu(v) for k, v in value.items()}
    return value
