"""A module by the name of the function that makes it: "package.file:function"."""

import importlib
import sys
from pathlib import Path

import torch
from torch import nn


def load_module(spec: str, device: str = "meta") -> nn.Module:
    """What the function named by "package.file:function" returns, made on `device`.

    Raises ValueError, in one sentence, for what cannot be imported, called or trained.
    """
    package, colon, name = spec.partition(":")
    if not (package and colon and name):
        raise ValueError(f"--module takes package.file:function, and {spec!r} has no such form")
    if package.endswith(".py") or "/" in package:
        raise ValueError(
            f"--module takes package.file:function, and {package} is a path; go to its folder, and "
            f"write {Path(package).stem}:{name}"
        )
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))  # as python -m has it, and a command has not
    try:
        function = getattr(importlib.import_module(package), name, None)
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"{package} cannot be imported ({said(error)}); start where it lies, or set PYTHONPATH"
        ) from None
    if not callable(function):
        what = "has no function" if function is None else "has no function, but a value,"
        raise ValueError(f"{package} {what} {name}; name one that returns an nn.Module")
    try:
        with torch.device(device):
            module = function()
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"{spec}() raised {said(error)}; it is called without arguments, on the {device} device"
        ) from None
    if not isinstance(module, nn.Module):
        raise ValueError(f"{spec}() returned a {type(module).__name__}; return an nn.Module")
    return module


def said(error: BaseException) -> str:
    """The type and the first line of an error."""
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
