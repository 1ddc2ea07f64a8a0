"""What the notebook and a rank agree on before the rank starts. Does not load torch."""

import os
import sys
from dataclasses import dataclass

from rankbook.live.private import MARK


@dataclass(frozen=True)
class RankSpec:
    """What a rank is told when it starts. `directory` is private to the notebook (mode 0700)."""

    rank: int
    world_size: int
    directory: str
    master_port: int
    backend: str
    timeout: float  # seconds
    check: bool

    @property
    def connection_file(self) -> str:
        """The Jupyter connection file of this rank's kernel."""
        return f"{self.directory}/rank{self.rank}.json"

    @property
    def crash_file(self) -> str:
        """Where the interpreter writes its stack when a signal such as SIGSEGV ends the rank."""
        return f"{self.directory}/rank{self.rank}.crash"

    @property
    def environment(self) -> dict[str, str]:
        """The variables that torchrun would set, for ranks of one node."""
        interface = "lo0" if sys.platform == "darwin" else "lo"
        return {
            MARK: self.directory,
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.rank),
            "GROUP_RANK": "0",
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_WORLD_SIZE": str(self.world_size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(self.master_port),
            "GLOO_SOCKET_IFNAME": interface,
            # Ranks share the cores: one thread each, as with torchrun, unless the reader set it.
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"),
        }
