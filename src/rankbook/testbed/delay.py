"""Holds back what a host sends: a device that packets go into, and come out of a while later.

``python -m rankbook.testbed.delay DEVICE INTERFACE SECONDS`` makes a TUN device, says ``ready``,
and sends each packet that is routed into it on by the interface, so many seconds after it came. It
ends when its input is closed, so with who has started it. Where the kernel has netem, that does the
same. Source:
https://docs.kernel.org/networking/tuntap.html
"""

import fcntl
import os
import select
import socket
import struct
import sys
import time
from collections import deque

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000  # whole IP packets, nothing before them
SO_BINDTODEVICE = 25
SO_SNDBUFFORCE = 32
BUFFER = 1 << 24  # bytes that may wait for the cable: more than its own queue takes


def open_device(name: str) -> int:
    """A file of which each read is a packet that was routed into the device `name`."""
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def open_way_out(interface: str) -> socket.socket:
    """What sends whole IP packets by `interface`, whatever the other routes say."""
    out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    out.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, interface.encode())
    out.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER)
    return out


def forward(device: int, out: socket.socket, seconds: float) -> None:
    """Until the input is closed, send each packet on `seconds` after it came, in their order."""
    held: deque[tuple[float, bytes]] = deque()
    while True:
        wait = max(0.0, held[0][0] - time.monotonic()) if held else None
        ready = select.select([device, sys.stdin], [], [], wait)[0]
        if sys.stdin in ready:
            return
        if ready:
            _take(device, held, seconds)
        now = time.monotonic()
        while held and held[0][0] <= now:
            _send(out, held.popleft()[1])


def _take(device: int, held: deque, seconds: float) -> None:
    """All packets that are there."""
    while True:
        try:
            packet = os.read(device, 65536)
        except BlockingIOError:
            return
        if packet[0] >> 4 == 4:  # IPv4
            held.append((time.monotonic() + seconds, packet))


def _send(out: socket.socket, packet: bytes) -> None:
    """By the cable; lost if its queue is full, as on any."""
    try:
        out.sendto(packet, (socket.inet_ntoa(packet[16:20]), 0))
    except OSError:  # the queue is full, or the cable is cut
        return


def main() -> None:
    """See above."""
    name, interface, seconds = sys.argv[1:]
    device, out = open_device(name), open_way_out(interface)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    forward(device, out, float(seconds))


if __name__ == "__main__":
    main()
