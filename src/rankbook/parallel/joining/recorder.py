"""A recorder of torch's Join: who still had inputs, who shadowed what for whom, and when.

Join, its hooks and DDP are replaced by noted ones while a recording lasts, in this process, and put
back after. Times are those of the calls: a GPU works on after a call has returned.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join, Joinable, JoinHook
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from rankbook.core import clocks
from rankbook.core.agreement import gather
from rankbook.parallel.joining.timeline import JoinEvent, JoinTimeline


@contextmanager
def record_join() -> Iterator["JoinRecording"]:
    """Record what Join and the training inside of it do on this rank.

    ::

        with record_join() as recording:
            with Join([model]):
                ...
        timeline = recording.gather()

    Begin before Join does. The collectives of a real backward are started by C++, so they are not
    seen: they lie somewhere in the backward.
    """
    recording = JoinRecording()
    with ExitStack() as stack:
        for owner, name, noted in recording._replacements():
            stack.enter_context(patch.object(owner, name, noted))
        for handle in recording._step_hooks():
            stack.callback(handle.remove)
        yield recording


class JoinRecording:
    """What one rank did, as `record_join` noted it."""

    def __init__(self):
        self._noted = []  # (kind, name, start, end), in the order of the ends

    def events(self, rank: int = 0) -> list[JoinEvent]:
        """What this process did, by its own clock, as the events of `rank`."""
        events, until = [], float("-inf")
        for kind, name, start, end in sorted(self._noted, key=lambda noted: (noted[2], -noted[3])):
            events.append(JoinEvent(rank, kind, name, start, end, inside=end <= until))
            until = max(until, end)
        return events

    def gather(self, group: dist.ProcessGroup | None = None) -> JoinTimeline:
        """The events of all ranks of `group`; all of them must call, all get the same.

        Between machines, clocks are set against each other, and the timeline's `clock_error` says
        how well. Raises ValueError if no rank did anything.
        """
        rank = dist.get_rank(group)
        offsets, error = clocks.clock_offsets(group)
        ahead = offsets[rank]
        mine = [e._replace(start=e.start - ahead, end=e.end - ahead) for e in self.events(rank)]
        events = [event for events in gather(mine, group) for event in events]
        return JoinTimeline(events, error)

    @contextmanager
    def _noting(self, kind: str, name: str = "") -> Iterator[None]:
        start = clocks.now()
        try:
            yield
        finally:
            self._noted.append((kind, name, start, clocks.now()))

    def _wrapped(self, function: Callable, kind: str, name: str = "") -> Callable:
        @wraps(function)
        def noted(*args, **kwargs):
            with self._noting(kind, name):
                return function(*args, **kwargs)

        return noted

    def _replacements(self) -> list[tuple[object, str, object]]:
        """What is replaced (owner, name) by what, for as long as the recording lasts."""
        ddp = DistributedDataParallel
        plain = [
            (ddp, "forward", "forward"),
            (torch.Tensor, "backward", "backward"),
            (Join, "_get_num_nonjoined_procs", "ask"),
        ]
        collectives = [
            (dist, "all_reduce", "all_reduce"),
            (dist, "broadcast", "broadcast"),
            (ddp, "_match_all_reduce_for_bwd_pass", "gradients"),
        ]
        return [
            *((o, name, self._wrapped(getattr(o, name), kind)) for o, name, kind in plain),
            *(
                (o, name, self._wrapped(getattr(o, name), "collective", what))
                for o, name, what in collectives
            ),
            (Join, "notify_join_context", staticmethod(self._noted_notify())),
            (Join, "__exit__", self._noted_exit()),
        ]

    def _noted_notify(self) -> Callable:
        notify = Join.notify_join_context

        @wraps(notify)
        def noted(joinable: Joinable):
            config = getattr(joinable, "_join_config", None)
            if not (config and config.enable and config.is_first_joinable):
                return notify(joinable)  # it says nothing: the first Joinable speaks for all
            with self._noting("notify"):
                return notify(joinable)

        return noted

    def _noted_exit(self) -> Callable:
        leave = Join.__exit__

        @wraps(leave)
        def noted(join: Join, error_type, error, traceback):
            if join._enable and not error_type:
                with self._noting("exhausted"):
                    pass
                pairs = zip(join._joinables, join._join_hooks, strict=True)
                join._join_hooks = [_NotedHook(self, *pair) for pair in pairs]
            return leave(join, error_type, error, traceback)

        return noted

    def _step_hooks(self) -> list:
        """Every optimizer has a step of its own, so torch's hooks for all of them are used."""
        begun = []

        def end(*_):
            start = begun.pop()
            if not begun:  # a sharded optimizer steps another one inside
                self._noted.append(("step", "", start, clocks.now()))

        return [
            register_optimizer_step_pre_hook(lambda *_: begun.append(clocks.now())),
            register_optimizer_step_post_hook(end),
        ]


class _NotedHook(JoinHook):
    """The hook of one Joinable, noted."""

    def __init__(self, recording: JoinRecording, joinable: Joinable, hook: JoinHook):
        self._recording, self._name, self._hook = recording, type(joinable).__name__, hook

    def main_hook(self) -> None:
        with self._recording._noting("main_hook", self._name):
            self._hook.main_hook()

    def post_hook(self, is_last_joiner: bool) -> None:
        with self._recording._noting("post_hook", self._name):
            self._hook.post_hook(is_last_joiner)
