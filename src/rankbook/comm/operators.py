"""torch's operators that send something: what each does, and what a call of one hands in.

Read off the schemas of torch 2.13: `torch._C._jit_get_all_schemas()`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _resolve_process_group

NAMESPACES = ("c10d", "_c10d_functional", "_dtensor")
# operator: (operation, the argument that is handed in)
CALLS = {
    "allreduce_": ("all_reduce", "tensors"),
    "allreduce_coalesced_": ("all_reduce", "tensors"),
    "all_reduce": ("all_reduce", "input"),
    "all_reduce_": ("all_reduce", "input"),
    "all_reduce_coalesced": ("all_reduce", "inputs"),
    "all_reduce_coalesced_": ("all_reduce", "inputs"),
    "allgather_": ("all_gather", "input_tensors"),
    "_allgather_base_": ("all_gather", "input_tensor"),
    "allgather_coalesced_": ("all_gather", "input_list"),
    "allgather_into_tensor_coalesced_": ("all_gather", "inputs"),
    "all_gather_into_tensor": ("all_gather", "input"),
    "all_gather_into_tensor_out": ("all_gather", "input"),
    "all_gather_into_tensor_coalesced": ("all_gather", "inputs"),
    "reduce_scatter_": ("reduce_scatter", "input_tensors"),
    "_reduce_scatter_base_": ("reduce_scatter", "input_tensor"),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter", "inputs"),
    "reduce_scatter_tensor": ("reduce_scatter", "input"),
    "reduce_scatter_tensor_out": ("reduce_scatter", "input"),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", "inputs"),
    "alltoall_": ("all_to_all", "input_tensors"),
    "alltoall_base_": ("all_to_all", "input"),
    "all_to_all_single": ("all_to_all", "input"),
    "shard_dim_alltoall": ("all_to_all", "input"),
    "broadcast_": ("broadcast", "tensors"),
    "broadcast": ("broadcast", "input"),
    "reduce_": ("reduce", "tensors"),
    "gather_": ("gather", "input_tensors"),
    "scatter_": ("scatter", "input_tensors"),
    "send": ("send", "tensors"),
    "isend": ("send", "tensor"),
    "recv_": ("recv", "tensors"),
    "recv_any_source_": ("recv", "tensors"),
    "irecv": ("recv", "tensor"),
    "barrier": ("barrier", None),
    "monitored_barrier_": ("barrier", None),
}


def calls(func: Any, args: tuple, kwargs: Mapping) -> Iterator[tuple[str, dict]]:
    """What a call of operator `func` sends: (operator of CALLS, arguments by name)."""
    if getattr(func, "namespace", "") not in NAMESPACES:
        return
    names = [argument.name for argument in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    if func._opname == "batch_p2p_ops":  # several messages at once
        for name, tensor in zip(given["op_list"], given["tensors"], strict=True):
            yield name, {"tensor": tensor, "group_name": given["group_name"]}
    elif func._opname in CALLS:
        yield func._opname, given


def group_of(given: Mapping) -> dist.ProcessGroup:
    """The process group among the arguments, which some operators take by its name."""
    group: Any = given.get("process_group", given.get("group_name"))
    if isinstance(group, str):
        return _resolve_process_group(cast(Any, group))
    return dist.ProcessGroup.unbox(group) if isinstance(group, torch.ScriptObject) else group


def sizes(handed: Any) -> list[int]:
    """Bytes of a tensor, or of each in a list of them, or in a list of lists."""
    if isinstance(handed, torch.Tensor):
        return [handed.nbytes]
    return [sum(sizes(each)) for each in handed or ()]
