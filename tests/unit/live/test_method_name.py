"""The names that the agent gives the rendezvous are those that torch would find."""

import pytest
from torch.distributed.elastic.rendezvous import dynamic_rendezvous

from rankbook.live.torchrun.agent import method_name


@pytest.mark.parametrize("name", [dynamic_rendezvous.get_method_name, method_name])
def test_who_called_the_caller(name):
    def note(*depth):
        return name(*depth)

    def join():
        return note(), note(1), note(3)

    assert join() == ("join", "note", "test_who_called_the_caller")
    assert note(10_000) == "no_method_name"
