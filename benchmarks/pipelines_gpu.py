"""The GPU part of benchmarks/pipelines.py: the original's model, all its stages on one card."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.distributed as dist

from benchmarks.record import summary
from rankbook.core.timing import time_interleaved
from rankbook.models import TransformerConfig, preset, token_loss
from rankbook.parallel.pipeline import Pipeline, PipelinePlan, stage_module
from rankbook.speed.machine import measure_machine
from rankbook.speed.precision import matmuls
from rankbook.training import train_step

ORIGINAL_MS = 699.0  # a batch, of two pipelines of two GPUs each; its own printed log
ORIGINAL_ROWS, ORIGINAL_WINDOW = 40, 35  # 20 rows in each of the two pipelines
VOCABULARY = 28_782  # of WikiText-2
FULL_ROWS, FULL_WINDOW = (16, 32, 64, 128, 256), 512
WARM_UP = 3
Variant = tuple[str, bool]  # a number format, compiled or not
VARIANTS: tuple[Variant, ...] = (
    ("float32", False),
    ("float32", True),
    ("tf32", False),
    ("bf16", False),
    ("bf16", True),
)


def measure_gpu(repeats: int, peak: float | None) -> list[dict]:
    """Rows for batches of the original's size, and one for a batch that fills the card."""
    device = torch.device("cuda", torch.cuda.current_device())
    with process_group("nccl"):
        pipeline, optimizer = original(device)
        rows = like_the_text(pipeline, optimizer, VARIANTS, repeats)
        rows.append(fill(pipeline, optimizer, max(3, repeats // 4), peak))
    return rows


def original(device: torch.device):
    """The preset of a billion parameters, both stages on `device`, and its optimizer."""
    return make(preset("original", VOCABULARY, max_length=FULL_WINDOW), device, microbatches=4)


def like_the_text(pipeline: Pipeline, optimizer, variants, repeats: int) -> list[dict]:
    """A row a variant, with as many rows and tokens as the original's batch."""
    size = ORIGINAL_ROWS, ORIGINAL_WINDOW
    seconds = time_steps(pipeline, optimizer, size, variants, repeats)
    rows = [row(pipeline.config, size, variant, times) for variant, times in seconds.items()]
    for found in rows:
        found["times the original"] = round(ORIGINAL_MS / found["median"], 1)
    return rows


def fill(pipeline: Pipeline, optimizer, repeats: int, peak: float | None = None) -> dict:
    """The fastest of larger and larger batches, until the card is full: bf16, compiled.

    peak: the maker's, in 1e12 operations a second, where the card is not in the library's table.
    """
    best = None
    for rows in FULL_ROWS:
        size = rows, FULL_WINDOW
        try:
            seconds = time_steps(pipeline, optimizer, size, [("bf16", True)], repeats)
        except torch.OutOfMemoryError:
            break
        found = row(pipeline.config, size, ("bf16", True), seconds["bf16", True])
        if best is None or found["tokens/s"] > best["tokens/s"]:
            best = found
    if best is None:
        raise RuntimeError(f"not even {FULL_ROWS[0]} rows of {FULL_WINDOW} tokens fit this card")
    used = best["tokens/s"] * operations(pipeline.config, FULL_WINDOW)
    return best | shares(used, pipeline.device, peak)


def shares(used: float, device: torch.device, peak: float | None = None) -> dict[str, str]:
    """`used` FLOP/s beside the device's best measured product, and the maker's number."""
    machine = measure_machine(device)
    maker = 1e12 * peak if peak else machine.vendor
    found = {"of the measured product": f"{used / machine.peak:.0%} of {machine.peak / 1e12:.3g}"}
    if maker:
        found["of the maker's peak"] = f"{used / maker:.0%} of {maker / 1e12:g} TFLOP/s"
    return found


def make(config: TransformerConfig, device: torch.device, microbatches: int):
    """Both stages, on `device`, compiled; `time_steps` runs them with or without the compiler."""
    plan = PipelinePlan("interleaved1f1b", 1, microbatches, stages=2)
    modules = {i: stage_module(config, i, 2, device) for i in range(2)}
    for module in modules.values():
        for layer in module.layers.values():
            layer.compile()
    loss = torch.compile(token_loss)
    pipeline = Pipeline(plan, modules, plan.mesh(device.type), loss, config)
    fused = device.type == "cuda"
    return pipeline, torch.optim.AdamW(pipeline.parameters(), lr=1e-5, fused=fused)


def time_steps(
    pipeline: Pipeline, optimizer, size: tuple[int, int], variants, repeats: int
) -> dict[Variant, list[float]]:
    """Seconds of training steps on (rows, tokens) of random ids: the variants in turn."""
    device, vocabulary = pipeline.device, pipeline.config.vocab_size
    generator = torch.Generator().manual_seed(0)
    text = torch.randint(vocabulary, (size[0], size[1] + 1), generator=generator)

    def step(numbers: str, compiled: bool) -> None:
        stance = torch.compiler.set_stance("default" if compiled else "force_eager")
        low = torch.autocast(device.type, torch.bfloat16, enabled=numbers == "bf16")
        with stance, low, matmuls(numbers):
            train_step(pipeline, optimizer, text[:, :-1], text[:, 1:], 0.5)

    steps = {variant: partial(step, *variant) for variant in variants}
    return time_interleaved(steps, repeats, device, warm_up=WARM_UP)


def row(config: TransformerConfig, size: tuple[int, int], variant: Variant, times) -> dict:
    """One row of the table: milliseconds a step, and tokens a second at the median."""
    numbers, compiled = variant
    found = summary(times)
    return {
        "numbers": numbers,
        "torch.compile": "yes" if compiled else "no",
        "rows x tokens": f"{size[0]} x {size[1]}",
        "unit": "ms",
        **found,
        "tokens/s": round(size[0] * size[1] / found["median"] * 1000),
    }


def operations(config: TransformerConfig, window: int) -> float:
    """Floating-point operations that a token of a training step needs, forward and backward.

    Two for each weight that it is multiplied with, twice that in backward; attention looks back at
    half of the window on average. Source: https://arxiv.org/abs/2001.08361, section 2.1.
    """
    d, layers = config.d_model, config.layers
    weights = layers * (4 * d * d + 2 * d * config.d_hidden) + d * config.vocab_size
    attention = layers * 2 * d * window / 2
    return 6 * (weights + attention)


@contextmanager
def process_group(backend: str) -> Iterator[None]:
    """A group of this process alone: the pipeline asks for one. It opens no port."""
    with tempfile.TemporaryDirectory() as folder:
        where = {"init_method": f"file://{folder}/store", "rank": 0, "world_size": 1}
        dist.init_process_group(backend, **where)
        try:
            yield
        finally:
            dist.destroy_process_group()
