"""A stand-in for torchft's Manager, to compare its DiLoCo with this room's on ranks that stay.

torchft's own manager asks a lighthouse who takes part. Where nobody comes or goes, its LocalSGD and
DiLoCo need these few answers only. Source: torchft/local_sgd.py of torchft 0.2,
https://docs.pytorch.org/torchft/local_sgd.html
"""

from typing import Any

import torch
import torch.distributed as dist


class GroupManager:
    """What torchft's DiLoCo asks of its manager, answered for a process group.

    Every meeting is committed. group: None for all ranks.
    """

    _use_async_quorum = False  # read by torchft's DiLoCo, which refuses the other

    def __init__(self, group: dist.ProcessGroup | None = None):
        self.group, self.meetings = group, 0

    def current_step(self) -> int:
        """How many meetings there were."""
        return self.meetings

    def should_commit(self) -> bool:
        """Whether all are well: always. Counts a meeting."""
        self.meetings += 1
        return True

    def allreduce(
        self, tensor: torch.Tensor, should_quantize: bool = False
    ) -> torch.futures.Future:
        """The mean over the group, in place. Raises ValueError if it shall be quantized."""
        if should_quantize:
            raise ValueError("GroupManager: no quantized all_reduce; leave should_quantize False")
        dist.all_reduce(tensor, group=self.group)
        tensor /= dist.get_world_size(self.group)
        done: torch.futures.Future = torch.futures.Future()
        done.set_result(tensor)
        return done

    def start_quorum(self) -> None:
        """Nothing to do: membership is fixed."""

    def disallow_state_dict_read(self) -> None:
        """Nobody reads."""

    def allow_state_dict_read(self) -> None:
        """Nobody reads."""

    def register_state_dict_fn(self, *functions: Any) -> None:
        """Nobody comes who would need the state."""
