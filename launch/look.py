"""What torchrun.sh asks before an agent starts: python look.py HEAD_HOST PORT MODULE [INTERFACE].

Says whether this host is HEAD_HOST, by its address: is_host=1 or is_host=0, for --rdzv-conf.
torchrun compares names, and a host has several. Then the address that the others shall use for
--local-addr: that of INTERFACE, or else the one from which HEAD_HOST is reached; none if it is a
loopback's. Ends with one sentence on what is missing here.
"""

import errno
import fcntl
import importlib.util
import socket
import struct
import sys

SIOCGIFADDR = 0x8915  # the IPv4 address of an interface: man netdevice


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


def address_of(interface: str) -> str:
    """The IPv4 address of `interface`; empty if it has none."""
    known = [name for _, name in socket.if_nameindex()]
    if interface not in known:
        sys.exit(f"no interface is called {interface} here; there are {', '.join(known)}")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            said = fcntl.ioctl(asked, SIOCGIFADDR, struct.pack("256s", interface.encode()))
        except OSError:
            return ""
    return socket.inet_ntoa(said[20:24])


def address_towards(host: str, port: int) -> str:
    """Our address on the way to `host`, as the system's routes have it; empty if there is none."""
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_DGRAM
    ):
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.connect(address)  # nothing is sent
                return str(probe.getsockname()[0]).removeprefix("::ffff:")
        except OSError:
            continue
    return ""


def main(head: str, port: str, module: str, interface: str = "") -> None:
    """Print ``is_host=0 10.1.0.2``, or end with a sentence."""
    for each in ("torch", module):
        find(each)
    here = is_here(head, int(port))
    address = address_of(interface) if interface else address_towards(head, int(port))
    if address.startswith("127.") or address == "::1":
        address = ""
    print(f"is_host={int(here)} {address}".strip())


if __name__ == "__main__":
    main(*sys.argv[1:])
