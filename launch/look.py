"""What torchrun.sh asks before it starts an agent: python look.py HEAD_HOST PORT MODULE.

Says whether this host is HEAD_HOST, by its address: is_host=1 or is_host=0, for --rdzv-conf.
torchrun compares names, and a host has several. Ends with one sentence on what is missing here.
"""

import errno
import importlib.util
import socket
import sys


def find(module: str) -> None:
    """End if `module` cannot be found; nothing of it is loaded but the packages around it."""
    try:
        found = importlib.util.find_spec(module)
    except ImportError:
        found = None
    if found is None:
        sys.exit(
            f"python ({sys.executable}) finds no module {module}; see LAUNCH_VENV and PYTHONPATH "
            "in cluster.env"
        )


def is_here(host: str, port: int) -> bool:
    """Whether `host` is this one; ends if it is, and somebody listens at `port` already.

    torchrun would take whoever that is for its store, and wait for an answer for ever.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror:
        sys.exit(f"no host is called {host} here; give a name or address that every host knows")
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)  # only the host itself can
                return True
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                sys.exit(
                    f"port {port} is taken here (ss -ltnp says by whom), so the agents cannot meet "
                    "at it; set another LAUNCH_PORT on all hosts"
                )
    return False


if __name__ == "__main__":
    for each in ("torch", sys.argv[3]):
        find(each)
    print(f"is_host={int(is_here(sys.argv[1], int(sys.argv[2])))}")
