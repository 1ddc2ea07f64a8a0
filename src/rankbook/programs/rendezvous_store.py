"""The store in which torchrun's agents meet, on a host that stays: no agent hosts it then.

python -m rankbook.programs.rendezvous_store --host ADDRESS

It is torch's own TCPStore. That knows no password, and agents unpickle what they find in it: who
reaches its port can run code in all of them. So it listens on this machine alone unless an address
is asked for, and on that address only. Agents find it by these options of torchrun, all alike:

--rdzv-backend c10d --rdzv-endpoint ADDRESS:29400 --rdzv-id JOB --rdzv-conf is_host=0
"""

import signal
import socket
import sys
from typing import NoReturn

from torch.distributed import TCPStore

from rankbook.programs.ending import exit_on_user_error
from rankbook.programs.number_types import nonnegative_int
from rankbook.programs.options import Parser

PORT = 29400  # torchrun's own, where an endpoint names none


def serve(host: str = "127.0.0.1", port: int = PORT) -> TCPStore:
    """A store that listens at this address only, as long as what is returned lives.

    port: 0 for any that is free; `store.port` tells. Raises OSError where it cannot listen there.
    """
    # given a port alone, torch's store listens on every interface
    listening = socket.create_server((host, port))
    port = listening.getsockname()[1]
    return TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listening.detach(),  # the store closes it
    )


def main(arguments: list[str] | None = None) -> NoReturn:
    """Serve until a signal ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with exit_on_user_error("rendezvous_store"):
        options = parser().parse_args(sys.argv[1:] if arguments is None else arguments)
        store = serve(options.host, options.port)
    print(f"a store without a password listens at {store.host}:{store.port}", flush=True)
    while True:
        signal.pause()


def parser() -> Parser:
    """What the command line may say."""
    p = Parser(
        "python -m rankbook.programs.rendezvous_store",
        "The store in which torchrun's agents meet, on a host that stays. It has no password.",
    )
    p.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="to listen at (%(default)s)"
    )
    p.add_argument(
        "--port", type=nonnegative_int, default=PORT, help="0: any free one (%(default)s)"
    )
    return p


if __name__ == "__main__":
    main()
