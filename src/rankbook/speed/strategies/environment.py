"""Lightning and Fabric inside the process group that is there: they start no processes."""

import torch
import torch.distributed as dist
from lightning.fabric.plugins.environments import ClusterEnvironment


def on_group(strategy: type, **settings):
    """An object of one of Lightning's strategies, for the ranks that are there.

    Without the part that would start processes: it does not, with this environment, but it
    refuses to be made in a notebook.
    """

    class OnGroup(strategy):
        def _configure_launcher(self) -> None:
            self._launcher = None

    made = OnGroup(**settings)
    made.cluster_environment = GroupEnvironment()
    return made


class GroupEnvironment(ClusterEnvironment):
    """What Lightning asks about the cluster, answered by the existing process group.

    So the same lines work on live ranks and under torchrun. Source:
    https://lightning.ai/docs/pytorch/stable/clouds/cluster_expert.html
    """

    @property
    def creates_processes_externally(self) -> bool:
        """The ranks are there."""
        return True

    @property
    def main_address(self) -> str:
        """Not asked for: the ranks have found each other."""
        return "127.0.0.1"

    @property
    def main_port(self) -> int:
        """Not asked for: the ranks have found each other."""
        return 0

    @staticmethod
    def detect() -> bool:
        """Whether there is a group."""
        return dist.is_available() and dist.is_initialized()

    def world_size(self) -> int:
        """Ranks of the group."""
        return dist.get_world_size()

    def set_world_size(self, size: int) -> None:
        """The group has its size; Lightning offers its own count."""

    def global_rank(self) -> int:
        """This rank."""
        return dist.get_rank()

    def set_global_rank(self, rank: int) -> None:
        """The group has its ranks; Lightning offers its own count."""

    def local_rank(self) -> int:
        """This rank's number on its machine, which is also its GPU's."""
        return torch.cuda.current_device() if dist.get_backend() == "nccl" else dist.get_rank()

    def node_rank(self) -> int:
        """One machine; Lightning only names files by it."""
        return 0
