"""One rank's step of any module on ranks that do not exist: no memory, no messages, true sizes.

Tensors have shapes and no values (FakeTensorMode), the process group answers at once (torch's fake
one), each layer is wrapped by FSDP2, and torch's own tracker adds up what would be allocated.
Source: https://docs.pytorch.org/docs/stable/torch.compiler_fake_tensor.html
"""

import json
import sys
import time
import warnings
from contextlib import redirect_stdout
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional as F

from rankbook.predict.plan.module_loading import load_module, said
from rankbook.predict.plan.modules import find_layers

STEPS = 2  # Adam has its state from the second one on


class Wanted(NamedTuple):
    """What to run: the module, on how many ranks, on what input of one rank.

    sizes: of the input; whole numbers below the embedding's rows if `tokens`, else float32.
    """

    module: str
    ranks: int
    sizes: list[int]
    tokens: bool = True


def fake_peak(wanted: Wanted) -> dict[str, Any]:
    """Bytes of one rank at its fullest, by part; torch's names of them. Starts a process group.

    Parameters, gradients and Adam's moments in 32 bits, shared among all ranks; gathered and
    computed in bf16, as a plan's ZeRO 3. Raises ValueError for a module that cannot be made.
    """
    # not at the top: torch's tools for its own tests, which may move
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.fsdp2_mem_tracker import FSDPMemTracker
    from torch.testing._internal.distributed.fake_pg import FakeStore

    begin = time.perf_counter()
    dist.init_process_group("fake", rank=0, world_size=wanted.ranks, store=FakeStore())
    mesh = init_device_mesh("cpu", (wanted.ranks,))  # before: it looks at values
    with FakeTensorMode():
        module = load_module(wanted.module, "cpu")
        renew(module)
        rows = [m.num_embeddings for m in module.modules() if isinstance(m, nn.Embedding)]
        if wanted.tokens and not rows:
            raise ValueError(
                f"{wanted.module}() has no nn.Embedding that reads tokens; say its input, "
                "as --input 8x3x224x224"
            )
        layers = wrap(module, mesh)
        optimizer = torch.optim.AdamW(module.parameters(), foreach=False)
        tracker = FSDPMemTracker(module, optimizer)
        batch = _batch(wanted, max(rows, default=0))
        tracker.track_inputs((batch,))
        with tracker:
            for _ in range(STEPS):
                _loss(module(batch), batch).backward()
                optimizer.step()
                optimizer.zero_grad()
                tracker.reset_mod_stats()  # those of modules; the peak stays
        peak = tracker.get_tracker_snapshot("peak")
    dist.destroy_process_group()
    parts = peak[torch.device("cpu")]
    return {
        "total": parts["Total"],
        "parts": {str(getattr(k, "value", k)): n for k, n in parts.items() if k != "Total"},
        "layers": layers,
        "seconds": time.perf_counter() - begin,
        "torch": torch.__version__,
    }


def renew(module: nn.Module) -> None:
    """Give `module` fresh parameters and buffers, in place; what was shared stays shared.

    A deep copy of a fake tensor, as nn.TransformerEncoder makes of its layer, copies the fake mode
    as well, and two modes do not mix.
    """
    made: dict[int, tuple[Tensor, Tensor]] = {}  # the old ones too: a freed one gives its id away
    for part in module.modules():
        tables: list[dict[str, Any]] = [part._parameters, part._buffers]
        for table in tables:
            for name, old in table.items():
                if old is None:
                    continue
                if id(old) not in made:
                    new = torch.empty(old.shape, dtype=old.dtype)
                    kept = isinstance(old, nn.Parameter)
                    made[id(old)] = old, nn.Parameter(new, old.requires_grad) if kept else new
                table[name] = made[id(old)][1]


def wrap(module: nn.Module, mesh: DeviceMesh) -> str:
    """Share each repeated layer, then the rest, among all ranks, in place; say what was found."""
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32)
    try:
        layers = find_layers(module)
    except ValueError:
        found = "no repeated layers: shared as a whole"
    else:
        for layer in layers.modules:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        found = f"{len(layers.modules)} x {layers.kind} in {layers.path}"
    fully_shard(module, mesh=mesh, mp_policy=policy)
    return found


def _batch(wanted: Wanted, rows: int) -> Tensor:
    return torch.randint(rows, wanted.sizes) if wanted.tokens else torch.randn(wanted.sizes)


def _loss(output: Any, batch: Tensor) -> Tensor:
    """Cross entropy of logits for each token; of anything else, the mean."""
    output = getattr(output, "logits", output)
    while isinstance(output, tuple | list):
        output = output[0]
    if not isinstance(output, Tensor):
        raise ValueError(
            f"its forward pass returns a {type(output).__name__}; return a tensor, or .logits"
        )
    if not batch.is_floating_point() and output.shape[:-1] == batch.shape:
        return F.cross_entropy(output.flatten(0, -2).float(), batch.flatten())
    return output.float().mean()


def main() -> None:
    """Do what the JSON in the first argument wants; print a document, or one with `error`."""
    warnings.filterwarnings("ignore")
    try:
        with redirect_stdout(sys.stderr):  # what the module prints is no part of the document
            found = fake_peak(Wanted(**json.loads(sys.argv[1])))
    except Exception as error:
        found = {"error": str(error) if type(error) is ValueError else _why(error)}
    print(json.dumps(found))


def _why(error: Exception) -> str:
    if type(error).__name__ == "DataDependentOutputException":
        return "it looks at values (item(), nonzero(), if tensor), and fake tensors have none"
    return f"it raised {said(error)}"


if __name__ == "__main__":
    main()
