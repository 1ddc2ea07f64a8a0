"""Steps of live ranks under many set-ups, recorded, and held against one process."""

from contextlib import ExitStack
from functools import cache
from unittest import mock

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from rankbook.models.loss import token_loss
from rankbook.models.transformer import TransformerConfig, TransformerLM, initialise
from rankbook.predict.memory.allocator import record_on_gpu
from rankbook.predict.memory.gradients import loss_and_gradients
from rankbook.predict.memory.live import prepare
from rankbook.predict.memory.recording import record_step
from rankbook.predict.memory.setup import Setup

WINDOW = {"states": 32, "activations": 128, "ends": 32}
MODELS = {
    "states": TransformerConfig(512, 128, 512, 4, 4, max_length=64),
    "activations": TransformerConfig(600, 64, 256, 4, 4, max_length=128),
    "ends": TransformerConfig(4000, 64, 256, 4, 2, max_length=64),
}
ROWS = {"states": 2, "activations": 8, "ends": 2}


def setup(model: str, options: dict) -> Setup:
    """The set-up of a case, of sequences that suit the model, on gloo ranks in 32 bits."""
    return Setup(**{"precision": "float32", "gloo": True, "sequences": ROWS[model]} | options)


def recorded(cases: list[tuple[str, dict]]) -> list[dict]:
    """Of each case: this rank's bytes at the fullest moment, by part, and what it learned."""
    return [_case(model, setup(model, options)) for model, options in cases]


def _case(model: str, how: Setup) -> dict:
    tokens, targets = batch(model, how.sequences * how.microbatches * how.dp)
    step = prepare(MODELS[model], how)
    losses, gradients = control(model, len(tokens))
    loss, found = loss_and_gradients(step, tokens, targets)
    size = torch.stack([g.norm() for g in gradients.values()]).norm()
    wrong = [(gradients[name] - g).norm() / size for name, g in found.items()]
    tape = record_step(step, tokens, targets)
    return {
        "total": tape.total,
        "peak": dict(tape.peak),
        "begins": tape.begins,
        "losses": [loss / losses[0] - 1, tape.loss / losses[1] - 1],
        "gradients": max(wrong).item(),
    }


def batch(model: str, rows: int) -> tuple[Tensor, Tensor]:
    """Tokens and targets, alike on all ranks."""
    ids = torch.randint(
        MODELS[model].vocab_size,
        (2, rows, WINDOW[model]),
        generator=torch.Generator().manual_seed(1),
    )
    return ids[0], ids[1]


@cache
def control(model: str, rows: int) -> tuple[list[float], dict[str, Tensor]]:
    """Two losses of one process that trains the whole model plainly, and its first gradients."""
    whole = TransformerLM(MODELS[model])
    initialise(whole, 0)
    adam = torch.optim.AdamW(whole.parameters(), lr=1e-3)
    losses, gradients = [], {}
    for number in range(2):
        adam.zero_grad()
        tokens, targets = batch(model, rows)
        loss = token_loss(whole(tokens), targets)
        loss.backward()
        if number == 0:
            gradients = {name: p.grad.clone() for name, p in whole.named_parameters()}
        adam.step()
        losses.append(loss.item())
    return losses, gradients


def as_on_a_gpu(how: dict) -> dict:
    """What is noted of a step if an allocator were asked, of which only the questions are real."""
    trace: list[dict] = []

    def snapshot() -> dict:
        trace.append({"action": "snapshot"})
        return {"segments": [], "device_traces": [list(trace)]}

    memory = "torch.cuda.memory."
    stubs = {
        memory + "_snapshot": snapshot,
        memory + "_record_memory_history": lambda *_, **__: trace.clear(),
        "torch.cuda.current_device": lambda: 0,
        "torch.cuda.synchronize": lambda _: None,
        "torch.cuda.reset_peak_memory_stats": lambda _: None,
        "torch.cuda.max_memory_allocated": lambda _: 7,
    }
    step = prepare(MODELS["states"], setup("states", how))
    with ExitStack() as stack:
        for name, stub in stubs.items():
            stack.enter_context(mock.patch(name, stub))
        tape = record_on_gpu(step, *batch("states", 2 * how["microbatches"]))
    after = step(*batch("states", 2 * how["microbatches"])).item()  # nothing is left of it
    return {"begins": list(tape.begins), "resident": tape.resident, "fell": after < tape.loss}


def some_of_them() -> list[float]:
    """The losses that two of the ranks compute alone, in a larger world."""
    mesh = torch.arange(2).view(1, 2, 1)
    names = ("pp", "dp", "tp")
    groups = [dist.new_subgroups_by_enumeration(g)[0] for g in ([[0], [1]], [[0, 1]], [[0], [1]])]
    if dist.get_rank() > 1:
        return []
    two = DeviceMesh.from_group(groups, "cpu", mesh=mesh, mesh_dim_names=names)
    step = prepare(MODELS["states"], setup("states", {"dp": 2, "zero": 2}), mesh=two)
    return [step(*batch("states", 4)).item(), control("states", 4)[0][0]]
