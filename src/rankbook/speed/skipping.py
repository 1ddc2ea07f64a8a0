"""Which recipes a device cannot run, and why, in one sentence. Nothing is ever faked."""

import importlib.util
import os
import shutil
import sysconfig
from pathlib import Path

import torch

from rankbook.speed.recipes import Recipe


def reason_to_skip(recipe: Recipe, device: torch.device | str = "cpu") -> str | None:
    """What this machine lacks for `recipe` on `device`, as a sentence; None where it can run."""
    device = torch.device(device)
    lacks = _gpu(recipe, device) if device.type == "cuda" else _cpu(recipe)
    packages = ("lightning", "pytorch_lightning")
    if recipe.runner == "lightning" and not any(map(importlib.util.find_spec, packages)):
        lacks = "Lightning is not installed"
    return lacks


def _cpu(recipe: Recipe) -> str | None:
    if recipe.precision == "tf32":
        return "TF32 is a number format of GPUs since Ampere; this is a CPU"
    if recipe.pinned:
        return "pinned memory serves copies to a GPU; this is a CPU"
    if recipe.compile == "reduce-overhead":
        return "CUDA graphs need a GPU; this is a CPU"
    if recipe.compile and not _found("CXX", "g++"):  # what TorchInductor takes
        return "torch.compile needs a C++ compiler on a CPU, and none is installed"
    return _path_with_space() or _no_headers() if recipe.compile else None


def _gpu(recipe: Recipe, device: torch.device) -> str | None:
    if recipe.precision in ("tf32", "bf16") and torch.cuda.get_device_capability(device) < (8, 0):
        name = torch.cuda.get_device_name(device)
        return f"{recipe.precision} needs a GPU since Ampere; this is {name}"
    if recipe.compile and not importlib.util.find_spec("triton"):
        return "torch.compile needs Triton on a GPU, and it is not installed"
    if recipe.compile and not _found("CC", "gcc", "clang"):  # what Triton takes
        return "torch.compile needs a C compiler for its launchers, and none is installed"
    return _no_headers() if recipe.compile else None


def _path_with_space() -> str | None:
    """TorchInductor quotes the path of its headers (``-I``), not that of its libraries (``-L``).

    In ``torch/_inductor/cpp_builder.py`` of torch 2.13.
    """
    place = str(Path(torch.__file__).parent)
    if len(place.split()) == 1:
        return None
    return f"torch.compile can't link from a path with a space, and torch lies in {place}"


def _no_headers() -> str | None:
    if (Path(sysconfig.get_path("include")) / "Python.h").is_file():
        return None
    return "torch.compile needs Python's headers (Debian and Ubuntu: python3-dev), not installed"


def _found(variable: str, *names: str) -> str | None:
    """Path of the compiler that `variable` names, or else of the first of `names` there is."""
    wanted = [os.environ[variable]] if variable in os.environ else names
    return next((path for name in wanted if (path := shutil.which(name))), None)
