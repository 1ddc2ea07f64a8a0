"""The parts, in the order of their worth: each is a command that ends within its minutes."""

import os
from dataclasses import dataclass

from rankbook.data.sources import cache_folder

MORE = os.EX_TEMPFAIL  # the status of a program that stopped in time and has more to do


@dataclass(frozen=True)
class Part:
    """A program to run: `module` with `arguments`, ended after so many `minutes`."""

    name: str
    about: str
    module: str
    arguments: tuple[str, ...] = ()
    minutes: float = 8.0


def parts(rehearse: bool, results: str) -> list[Part]:
    """All of them; `results`: the folder of the result files."""
    where = ("--device", "cpu") if rehearse else ()
    name = "cpu" if rehearse else "full"
    tokens = f"{results if rehearse else cache_folder()}/gpu-tokens.npz"
    into = ("--results", results)
    ladder = ("--ladder", "full", "--steps", "128", "--together", "4", "--minutes", "3")
    if rehearse:
        rows = ("--recipe", "plain", "packed", "tf32", "--steps", "1", "--repeats", "1")
        ladder = (*rows, "--together", "1", "--minutes", "0")
    out = ("--tokens", tokens, "--out", f"{results}/speed-gpu-1.json", "--resume")
    here = (*where, *into)
    return [
        Part("alive", "does each thing run at all", "benchmarks.gpu.alive", where, 4),
        Part("tokens", "the reviews for the ladder", "benchmarks.gpu.tokens",
             ("--size", name, "--out", tokens)),
        Part("ladder", "the recipes, full size", "benchmarks.ladder", (*ladder, *out)),
        Part("profile", "kernels and gaps of the best", "benchmarks.gpu.profile", here),
        Part("original", "a billion parameters", "benchmarks.gpu.original", here),
        Part("meshes", "train_lm on all GPUs", "benchmarks.gpu.meshes", here),
        Part("equality", "outcomes beside float64", "benchmarks.gpu.equality", here),
        Part("memory", "formula beside the peak", "benchmarks.gpu.memory", here),
        Part("attention", "long sequences", "benchmarks.gpu.attention", here),
        Part("nccl", "what only nccl has", "benchmarks.gpu.nccl", here),
        Part("chapters", "the English chapters", "benchmarks.gpu.chapters",
             (*here, "--minutes", "3")),
    ]  # fmt: skip
