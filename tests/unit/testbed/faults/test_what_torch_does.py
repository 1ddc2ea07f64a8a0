"""What page 48 says of torch's agents: where they give up, and what a wrong clock does to them."""

import pickle
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from torch.distributed import DistStoreError
from torch.distributed.elastic.agent.server.api import SimpleElasticAgent
from torch.distributed.elastic.rendezvous import dynamic_rendezvous

SECOND = timedelta(seconds=1)


class WithoutTheOther:
    """A store in which the other agent's line never comes."""

    def set(self, key, value):
        pass

    def multi_get(self, keys):
        raise DistStoreError(f"wait timeout after 15000ms, keys: {keys}")


def assign():
    spec = SimpleNamespace(role="default", local_world_size=2)
    return SimpleElasticAgent._assign_worker_ranks(None, WithoutTheOther(), 1 - 1, 2, spec)


def test_an_agent_gives_up_where_another_never_says_how_many_workers_it_has():
    with pytest.raises(DistStoreError, match="role_info/1"):
        assign()


def test_identical_workers_need_no_word_of_the_other_agent(monkeypatch):
    monkeypatch.setenv("TORCH_ELASTIC_WORKER_IDENTICAL", "1")
    workers = assign()
    assert [(each.global_rank, each.world_size) for each in workers] == [(0, 4), (1, 4)]


@pytest.mark.parametrize(("ahead", "left"), [(0, 2), (10, 2), (20, 1), (3600, 1), (-3600, 2)])
def test_a_node_whose_clock_is_ahead_strikes_the_other_off(monkeypatch, ahead, left):
    now = datetime.now(UTC)

    class Shifted(datetime):  # and it stands: how long the test takes is no matter
        @classmethod
        def now(cls, tz):
            return now.astimezone(tz) + ahead * SECOND

    here, there = (dynamic_rendezvous._NodeDesc(name, 1, 0) for name in ("here", "there"))
    state = dynamic_rendezvous._RendezvousState()
    state.participants = {here: 0, there: 1}
    state.last_heartbeats = {here: now + ahead * SECOND, there: now}
    store = SimpleNamespace(get_state=lambda: (pickle.dumps(state), None))
    settings = dynamic_rendezvous.RendezvousSettings(
        "job", 1, 2, dynamic_rendezvous.RendezvousTimeout(), 5 * SECOND, 3
    )
    holder = dynamic_rendezvous._BackendRendezvousStateHolder(store, settings)
    monkeypatch.setattr(dynamic_rendezvous, "datetime", Shifted)
    holder.sync()
    assert len(holder.state.participants) == left and here in holder.state.participants
