"""Ports of this machine alone: listened at on 127.0.0.1, or kept from anybody else meanwhile."""

import socket


def listen_on_loopback(port: int = 0) -> socket.socket | None:
    """A listening socket on 127.0.0.1, for `master_listen_fd` of a TCPStore; None if it is taken.

    port: 0 for any. Without such a socket torch's TCPStore listens on every interface, also where
    its address is 127.0.0.1.
    """
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(("127.0.0.1", port))
        server.listen(socket.SOMAXCONN)
    except OSError:
        server.close()
        return None
    return server


class ReservedPort:
    """A loopback port, held until `close`: bound and not listening, so that a server may take it.

    A server that sets SO_REUSEADDR, as torch's stores and Go's servers do, binds beside it; the
    kernel gives the port to nobody who asks for any (`socket(7)`, `ip(7)`: SO_REUSEADDR).
    """

    def __init__(self):
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind(("127.0.0.1", 0))
        self.number: int = self._held.getsockname()[1]

    def close(self) -> None:
        """Give it back; more than once, too."""
        self._held.close()

    def __enter__(self) -> "ReservedPort":
        return self

    def __exit__(self, *_) -> None:
        self.close()
