"""The launcher's talk with its agent."""

import os
import socket

from rankbook.live.torchrun.forked_launcher import read_order


def test_an_agent_that_was_killed_wants_nothing():
    launcher, agent = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    reading, writing = os.pipe()
    socket.send_fds(agent, [b"order"], [reading, writing])
    order, descriptors = read_order(launcher)
    assert order == b"order" and len(descriptors) == 2
    launcher.send(b"an answer that nobody reads")
    agent.close()
    for _ in range(2):
        assert read_order(launcher) == (b"", [])
    for file in (reading, writing, *descriptors):
        os.close(file)
    launcher.close()
