"""The fork server of launches: a process that has torch loaded and forks. Linux only.

It has one thread and never touches a device, so its children are as good as freshly started
ones. The tree of a launch, each child ending with its parent:

    notebook kernel - fork server - launcher - agent (the real torchrun)
                                        - worker, one for each rank

torchrun's agent runs threads, and a fork from a process with threads can inherit a lock that is
never released. So the agent does not fork: it asks the launcher, which has one thread.
"""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # started by path: find this package, not this folder
    sys.path[0] = str(Path(__file__).parents[3])

from rankbook.core.parent_death import die_with_parent
from rankbook.live.torchrun.forked_launcher import Launcher


def main(control: socket.socket, parent: int) -> None:
    """Load torch, say so on `control`, then fork a launcher for every directory that comes in."""
    die_with_parent(parent)
    _load()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # launchers are not waited for
    control.send(b"ready")
    run = serve(control)
    sys.exit(run())  # only in a child: as if it had been started by itself


def serve(control: socket.socket) -> Callable[[], Any]:
    """Fork a launcher for each message (a directory's path, and a socket to the notebook).

    Returns in the forked children only: the function that the child shall run.
    """
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 4096, 1)
        if not message:  # the notebook is gone, or wants no more
            os._exit(0)
        notebook = socket.socket(fileno=descriptors[0])
        fork_server = os.getpid()
        if os.fork() == 0:
            control.close()
            return Launcher(Path(message.decode()), notebook, fork_server).serve()
        notebook.close()


def _load() -> None:
    # Not only what torchrun needs: DistributedDataParallel would load `_dynamo` in every rank.
    import torch._dynamo
    import torch.distributed.elastic.agent.server.local_elastic_agent
    import torch.distributed.elastic.rendezvous.c10d_rendezvous_backend
    import torch.distributed.elastic.rendezvous.static_tcp_rendezvous
    import torch.distributed.run  # noqa: F401

    gc.collect()
    gc.freeze()  # what is loaded stays shared with the children


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
