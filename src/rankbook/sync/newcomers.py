"""How a replica that was away gets what the others have agreed on meanwhile."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch import nn

from rankbook.core.dtensor import to_local

if TYPE_CHECKING:
    from rankbook.sync.outer import DiLoCo


@torch.no_grad()
def broadcast_all(
    parameters: Iterable[nn.Parameter], group: dist.ProcessGroup | None, source: int = 0
) -> None:
    """Give each rank of `group` the values that rank `source` of it has, in place."""
    for parameter in parameters:
        dist.broadcast(to_local(parameter).detach(), group=group, group_src=source)


@torch.no_grad()
def catch_up(sync: "DiLoCo", group: dist.ProcessGroup | None) -> bool:
    """Bring the ranks of `group` to the state of the one that was at most meetings.

    On all of them. Returns whether this rank was behind.
    """
    own = torch.tensor([sync.meetings, sync.steps])
    device = next(iter(sync.globals)).device
    seen = [torch.empty_like(own, device=device) for _ in range(dist.get_world_size(group))]
    dist.all_gather(seen, own.to(device), group=group)
    progress: list[list[int]] = torch.stack(seen).tolist()
    ahead = max(progress)
    source = progress.index(ahead)
    behind = sync.meetings < ahead[0]
    broadcast_all(sync.globals.values(), group, source)
    said: list[Any] = [sync.outer.state_dict()]
    dist.broadcast_object_list(said, group=group, group_src=source, device=device)
    sync.outer.load_state_dict(said[0])
    sync.meetings, sync.steps = ahead
    if behind:
        sync.residuals.clear()
        for parameter, agreed in sync.globals.items():
            to_local(parameter).copy_(to_local(agreed))
    return behind
