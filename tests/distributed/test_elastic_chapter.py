"""What the pages on elastic training say of agents: where one of these fails, a sentence changes.

Jobs that live through the faults are in test_elastic_program.py and the soak; the join that fails
is in tests/live/test_torchrun_share_store.py, a store's death in test_etcd.py.
"""

import inspect
import signal
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from torch.distributed.elastic.agent.server.api import (
    RunResult,
    SimpleElasticAgent,
    WorkerSpec,
    WorkerState,
)
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.rendezvous import RendezvousConnectionError
from torch.distributed.elastic.rendezvous import dynamic_rendezvous as rendezvous
from torch.distributed.launcher import api

INTERVAL = timedelta(seconds=1)
NODE = rendezvous._NodeDesc("127.0.0.1", 1, 0)


def ago(intervals: float) -> datetime:
    return datetime.now(UTC) - intervals * INTERVAL


def with_last_beat(when: datetime, attempts: int = 3) -> SimpleNamespace:
    """A rendezvous that is complete, with one node whose last beat was at `when`."""
    state = rendezvous._RendezvousState()
    state.complete, state.participants[NODE], state.last_heartbeats[NODE] = True, 0, when
    settings = SimpleNamespace(keep_alive_interval=INTERVAL, keep_alive_max_attempt=attempts)
    return SimpleNamespace(node=NODE, state=state, settings=settings)


def test_an_agent_skips_a_beat_when_the_last_is_not_an_interval_old():
    assert not rendezvous._should_keep_alive(with_last_beat(ago(0.99)))
    assert rendezvous._should_keep_alive(with_last_beat(ago(1.01)))


@pytest.mark.parametrize(("attempts", "left"), [(2, []), (3, [NODE])])
def test_two_attempts_strike_off_an_agent_that_skipped_one_beat(attempts, left):
    seen = with_last_beat(ago(2.01), attempts)
    holder = rendezvous._BackendRendezvousStateHolder.__new__(
        rendezvous._BackendRendezvousStateHolder
    )
    holder._state, holder._settings = seen.state, seen.settings
    holder._sanitize()
    assert list(seen.state.participants) == left


def test_an_agent_that_ends_by_a_signal_keeps_its_place(monkeypatch):
    closed = []
    handler = SimpleNamespace(shutdown=lambda: closed.append(True))

    class Agent:
        def __init__(self, spec, **options):
            pass

        def run(self):
            raise self.end

        def get_event_failed(self):
            return None

    monkeypatch.setattr(api, "LocalElasticAgent", Agent)
    monkeypatch.setattr(api.rdzv_registry, "get_rendezvous_handler", lambda parameters: handler)
    monkeypatch.setattr(api.events, "record", lambda *arguments: None)
    config = api.LaunchConfig(1, 2, 1, run_id="job", rdzv_backend="c10d",
                              rdzv_endpoint="127.0.0.1:0")  # fmt: skip
    Agent.end = SignalException("told to end", signal.SIGTERM)
    with pytest.raises(SignalException):
        api.launch_agent(config, "program", [])
    assert not closed
    Agent.end = ValueError("anything else")
    with pytest.raises(ValueError, match="anything else"):
        api.launch_agent(config, "program", [])
    assert closed


def test_a_restart_waits_30_seconds_for_workers_whatever_shutdown_timeout_says():
    asked = []
    agent = SimpleNamespace(_shutdown=lambda **options: asked.append(options), _shutdown_timeout=2)
    inspect.unwrap(LocalElasticAgent._stop_workers)(agent, None)
    assert asked == [{}]
    assert inspect.signature(LocalElasticAgent._shutdown).parameters["timeout"].default == 30


class Watched(SimpleElasticAgent):
    """An agent that sees its workers in one state after the other, and counts what it does."""

    def __init__(self, states: list[WorkerState], newcomers: int):
        handler = SimpleNamespace(num_nodes_waiting=lambda: newcomers)
        spec = WorkerSpec("default", 2, handler, entrypoint="train.py", max_restarts=3,
                          monitor_interval=0.001)  # fmt: skip
        super().__init__(spec, exit_barrier_timeout=0)
        self.states, self.restarts = [*states, WorkerState.SUCCEEDED], 0

    def _initialize_workers(self, group):
        group.state = WorkerState.HEALTHY

    def _monitor_workers(self, group):
        return RunResult(self.states.pop(0))

    def _restart_workers(self, group):
        self.restarts += 1

    def _exit_barrier(self):
        pass

    _start_workers = _stop_workers = _shutdown = _exit_barrier


@pytest.mark.parametrize(
    ("state", "newcomers", "counted"),
    [(WorkerState.HEALTHY, 1, 0), (WorkerState.FAILED, 0, 1), (WorkerState.HEALTHY, 0, None)],
)
def test_a_join_restarts_without_counting_and_a_failure_counts(state, newcomers, counted):
    """A node that leaves or dies is a failure to the others: their workers end with an error."""
    agent = Watched([state], newcomers)
    assert agent._invoke_run().state == WorkerState.SUCCEEDED
    assert agent.restarts == (counted is not None)
    assert agent._remaining_restarts == 3 - (counted or 0)


def test_a_store_that_does_not_answer_ends_the_agent():
    def nobody_answers():
        raise RendezvousConnectionError("the store is gone")

    agent = Watched([WorkerState.HEALTHY], 0)
    agent._worker_group.spec.rdzv_handler.num_nodes_waiting = nobody_answers
    with pytest.raises(RendezvousConnectionError):
        agent._invoke_run()
    assert agent.restarts == 0
