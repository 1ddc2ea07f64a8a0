"""What page 64 does on live ranks, for `test_memory_chapter`."""

import torch
import torch.distributed as dist

from rankbook.models import TransformerConfig, TransformerLM, initialise, token_loss
from rankbook.predict.memory import (
    Setup,
    checkpoint_layers,
    loss_and_gradients,
    memory_limit,
    prepare,
)
from rankbook.predict.memory.limiting import heap_free

MIB = 2**20
LARGE = TransformerConfig(2000, d_model=128, d_hidden=512, heads=4, layers=6, max_length=64)
SMALL = TransformerConfig(100, d_model=32, d_hidden=64, heads=4, layers=2, max_length=16)
TEXT = torch.arange(32 * 65).view(32, 65) * 7
SETUPS = {
    "plain": {"dp": 2, "sequences": 4},
    "microbatches": {"dp": 2, "sequences": 2, "microbatches": 2},
    "layers": {"dp": 2, "sequences": 4, "checkpointing": "layers"},
    "offload": {"dp": 2, "sequences": 4, "offload": ("activations", "optimizer")},
    "ZeRO 2": {"dp": 2, "sequences": 2, "microbatches": 2, "zero": 2},
    "ZeRO 3": {"dp": 2, "sequences": 2, "microbatches": 2, "zero": 3},
    "tensor": {"tp": 2, "sequences": 4, "microbatches": 2},
    "pipeline": {"pp": 2, "sequences": 2, "microbatches": 4},
}


def train(room: float, how: str = "none", steps: int = 2) -> tuple[int, str]:
    """How many steps worked within `room` bytes, and what was raised."""
    done, told = 0, ""
    try:
        with memory_limit(room):
            model = TransformerLM(LARGE)
            initialise(model, 0)
            checkpoint_layers(model, how)
            adam = torch.optim.Adam(model.parameters())
            for _ in range(steps):
                adam.zero_grad()
                logits = model(TEXT[:16, :-1] % 2000)
                token_loss(logits, TEXT[:16, 1:] % 2000).backward()
                adam.step()
                done += 1
    except RuntimeError as error:
        told = str(error)
    return done, told


def limited(rooms: list[int]) -> list[tuple[int, str]]:
    """`train` within each of `rooms` MiB; then within 87 MiB, with all layers computed anew."""
    train(1000 * MIB)  # libraries make what they keep: threads, buffers, modules
    found = [train(room * MIB) for room in rooms]
    return [*found, train(87 * MIB, "layers")]


def fragmented() -> dict:
    """Bytes that are free in the heap, what was asked for, and what was said."""
    with memory_limit(64 * MIB):
        small = [torch.empty(15 * 1024) for _ in range(300)]  # 60 KiB each
        small = small[::2]
    told = ""
    with memory_limit(0):
        free = heap_free()
        fits = torch.empty(14 * 1024)
        try:
            torch.empty(MIB)  # 4 MiB
        except RuntimeError as error:
            told = str(error)
    return {"free": free, "told": told, "kept": len(small), "fitted": fits.numel()}


def equal() -> dict[str, list[float]]:
    """Of each of `SETUPS` how far loss and gradients are off, and those of a sabotaged one."""
    tokens, targets = (ids[:8, :16] % 100 for ids in (TEXT[:, :-1], TEXT[:, 1:]))
    model = TransformerLM(SMALL)
    initialise(model, 0)
    control = token_loss(model(tokens), targets)
    control.backward()
    right = {name: p.grad for name, p in model.named_parameters()}
    size = torch.cat([g.flatten() for g in right.values()]).norm()

    def off(loss: float, found: dict) -> list[float]:
        worst = max(((found[n] - right[n]).norm() / size).item() for n in found)
        return [abs(loss / control.item() - 1), worst]

    distances = {}
    for name, how in SETUPS.items():
        step = prepare(SMALL, Setup(**how, precision="float32"))
        distances[name] = off(*loss_and_gradients(step, tokens, targets))
    own = slice(4 * dist.get_rank(), 4 * dist.get_rank() + 4)
    model.zero_grad()
    token_loss(model(tokens[own]), targets[own]).backward()  # nobody averages
    distances["not averaged"] = off(
        control.item(), {name: p.grad for name, p in model.named_parameters()}
    )
    return distances
