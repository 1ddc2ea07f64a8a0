"""What only nccl has, with one rank: the flight recorder's dump, and context parallel attention."""

import os
import pickle
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.functional import scaled_dot_product_attention

from benchmarks import pipelines_gpu
from benchmarks.gpu.options import parse
from benchmarks.gpu.rows import Rows

WHAT = "One rank with nccl: what the flight recorder writes, and context_parallel beside plain SDPA"


def main(arguments: list[str] | None = None) -> int:
    """Try what was not tried yet; 1 if something has failed."""
    options = parse(arguments, "Try what only nccl has.")
    os.environ.setdefault("TORCH_NCCL_TRACE_BUFFER_SIZE", "64")  # before the group is made
    rows = Rows("nccl-gpu-1", WHAT, options.device)
    for name, work in (("flight recorder", flight), ("context parallel", context)):
        rows.measure(name, lambda work=work: alone(options.device, work))
    return rows.failed()


def alone(device: torch.device, work) -> dict:
    """What `work` gives in a group of this process alone."""
    if device.type == "cpu":
        raise LookupError("this is nccl's, and there is no GPU here")
    with pipelines_gpu.process_group("nccl"):
        return work(device)


def flight(device: torch.device) -> dict:
    """The entries of a dump after three collectives. Its pickle is this process's own."""
    for _ in range(3):
        dist.all_reduce(torch.ones(4, device=device))
    torch.cuda.synchronize(device)
    dump = pickle.loads(torch._C._distributed_c10d._dump_nccl_trace())
    entries = dump.get("entries", [])
    assert [entry["profiling_name"] for entry in entries].count("nccl:all_reduce") == 3
    return {"version": dump.get("version", ""), "keys": " ".join(sorted(entries[-1]))}


def context(device: torch.device) -> dict:
    """Attention of one rank's whole sequence, under context_parallel and without it."""
    from torch.distributed.tensor.experimental import context_parallel

    q, k, v = torch.randn(3, 2, 4, 256, 64, device=device, dtype=torch.bfloat16).unbind()
    plain = scaled_dot_product_attention(q, k, v, is_causal=True)
    mesh = init_device_mesh("cuda", (1,))
    with context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2]):
        found = scaled_dot_product_attention(q, k, v, is_causal=True)
    off = (found - plain).float().norm() / plain.float().norm()
    assert off < 2**-7, f"off by {off:.1e}"
    return {"off": f"{off:.1e}"}


if __name__ == "__main__":
    sys.exit(main())
