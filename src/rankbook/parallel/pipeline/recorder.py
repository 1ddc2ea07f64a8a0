"""A recorder of pipelines: what each rank did in a real run, and when.

torch 2.13 runs every schedule through three methods of a stage, and waits through one function.
They are replaced while a recording lasts, for all pipelines of this process, and put back after.

Times are `time.monotonic`, which all processes of a machine share. A GPU works on after a call
has returned: where CUDA is in use, an event goes into the stream before and after each action, and
its time is set against that clock once the recording is over. Nothing waits for the GPU meanwhile.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from unittest.mock import patch

import torch.distributed as dist
from torch.distributed.pipelining import schedules as torch_schedules
from torch.distributed.pipelining.schedules import _PipelineSchedule
from torch.distributed.pipelining.stage import _PipelineStageBase

from rankbook.core import clocks
from rankbook.core.agreement import gather
from rankbook.parallel.pipeline.timeline import WAIT, Action, Timeline


@contextmanager
def record() -> Iterator["PipelineRecording"]:
    """Record what the pipelines of this process do in a ``with`` block, step by step.

    ::

        pipeline.step(tokens, targets)  # the first step finds out shapes, too
        with record() as recording:
            pipeline.step(tokens, targets)
        timeline = recording.gather()

    Works for `rankbook.parallel.pipeline.Pipeline` and for torch's own schedules; results do not
    change. The forward of the last stage includes the loss. Reducing gradients, and sharding, are
    not recorded.
    """
    recording = PipelineRecording()
    with ExitStack() as stack:
        stack.callback(recording._finish)
        for owner, name, wrapped in recording._hooks():
            stack.enter_context(patch.object(owner, name, wrapped))
        yield recording


class PipelineRecording:
    """The steps of one rank's pipeline, as `record` noted them."""

    def __init__(self):
        self._clock = clocks.event_clock()
        self._steps = [[]]  # of each step: [stage, kind, microbatch, start, end], in order

    @property
    def steps(self) -> int:
        """How many steps were recorded."""
        return len(self._steps) - 1

    def actions(self, step: int = -1, rank: int = 0) -> list[Action]:
        """What this process did in the given step, by its own clock, as the actions of `rank`.

        step: counted from 0, or from the end. A wait carries the stage and the microbatch of the
        action that came after it. Raises ValueError if there was no such step.
        """
        if not -self.steps <= step < self.steps:
            raise ValueError(
                f"step {step} was not recorded, only {self.steps} were; "
                "call the pipeline's step inside of the with block"
            )
        self._clock.finish()
        actions = []
        for stage, kind, microbatch, start, end in reversed(self._steps[: self.steps][step]):
            if kind == WAIT:
                if not actions:
                    continue  # for its last messages to leave: no action comes after it
                stage, microbatch = actions[-1].stage, actions[-1].microbatch
            times = self._clock.seconds(start), self._clock.seconds(end)
            actions.append(Action(rank, stage, kind, microbatch, *times))
        return actions[::-1]

    def gather(self, step: int = -1, group: dist.ProcessGroup | None = None) -> Timeline:
        """The given step on all ranks of `group`; all of them must call, all get the same.

        step: as for `actions`. Between machines, clocks are set against each other, and the
        timeline's `clock_error` says how well. Raises ValueError if there was no such step.
        """
        rank = dist.get_rank(group)
        mine = self.actions(step, rank)
        offsets, error = clocks.clock_offsets(group)
        ahead = offsets[rank]
        mine = [a._replace(start=a.start - ahead, end=a.end - ahead) for a in mine]
        actions = [action for actions in gather(mine, group) for action in actions]
        return Timeline(actions, error)

    def _finish(self) -> None:
        """A step that failed counts as one, too."""
        if self._steps[-1]:
            self._steps.append([])

    def _note(self, stage: int, kind: str, microbatch: int, start, end) -> None:
        self._steps[-1].append([stage, kind, microbatch, start, end])

    def _hooks(self) -> list[tuple[object, str, Callable]]:
        """What is replaced (owner, name) by what, for as long as the recording lasts."""
        stage, schedule, stamp = _PipelineStageBase, _PipelineSchedule, self._clock.stamp
        forward, backward = stage.forward_one_chunk, stage.backward_one_chunk
        weight = stage.backward_weight_one_chunk
        compute_loss, end_step = schedule._maybe_compute_loss, schedule._update_losses
        wait = torch_schedules._wait_batch_p2p

        @wraps(forward)
        def noted_forward(stage, microbatch, *args, **kwargs):
            start = stamp()
            output = forward(stage, microbatch, *args, **kwargs)
            self._note(stage.stage_index, "F", microbatch, start, stamp())
            return output

        @wraps(compute_loss)
        def noted_loss(schedule, stage, *args, **kwargs):
            compute_loss(schedule, stage, *args, **kwargs)
            if stage.is_last:  # and so its forward was noted just before
                self._steps[-1][-1][-1] = stamp()

        @wraps(backward)
        def noted_backward(stage, microbatch, loss=None, full_backward=True, last_backward=False):
            start = stamp()
            backward(stage, microbatch, loss, full_backward, last_backward)
            if stage.has_backward:
                kind = "B" if full_backward else "I"
                self._note(stage.stage_index, kind, microbatch, start, stamp())

        @wraps(weight)
        def noted_weight(stage, microbatch, *args, **kwargs):
            start = stamp()
            weight(stage, microbatch, *args, **kwargs)
            if stage.has_backward:
                self._note(stage.stage_index, "W", microbatch, start, stamp())

        @wraps(wait)
        def noted_wait(work):
            start = stamp()
            wait(work)
            if work:
                self._note(-1, WAIT, -1, start, stamp())

        @wraps(end_step)
        def noted_end(schedule, *args):
            end_step(schedule, *args)
            self._steps.append([])

        return [
            (stage, "forward_one_chunk", noted_forward),
            (stage, "backward_one_chunk", noted_backward),
            (stage, "backward_weight_one_chunk", noted_weight),
            (schedule, "_maybe_compute_loss", noted_loss),
            (schedule, "_update_losses", noted_end),
            (torch_schedules, "_wait_batch_p2p", noted_wait),
        ]
