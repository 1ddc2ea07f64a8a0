"""Replicas that train alone for a while and meet: LocalSGD and DiLoCo.

Sources: S. U. Stich, https://arxiv.org/abs/1805.09767; A. Douillard et al.,
https://arxiv.org/abs/2311.08105 and, of fragments, https://arxiv.org/abs/2501.18512
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.optim import SGD, Optimizer

from rankbook.core.dtensor import from_local, to_local
from rankbook.parallel.sync.compressors import Compressor
from rankbook.parallel.sync.exchange import Exchange, Pending
from rankbook.parallel.sync.fragments import cut_evenly, is_due

Outer = Callable[[Iterable[nn.Parameter]], Optimizer]
nesterov: Outer = partial(SGD, lr=0.7, momentum=0.9, nesterov=True)  # the paper's
plain: Outer = partial(SGD, lr=1.0)  # what all agree on becomes their mean


class DiLoCo:
    """Replicas take inner steps alone; every `every` steps an outer optimizer makes one of them.

    The way that a replica has gone since the last meeting, backwards (global parameters minus its
    own), is an outer gradient. Its mean over the replicas is the gradient of an outer step on the
    global parameters, from which all go on. Inner optimizers keep their own moments.

    parameters: of this replica, which its inner optimizer has just changed when `step` is called.
    They begin as those of the group's first rank. outer: makes the outer optimizer of the global
    ones. fragments: how many parts meet at different steps, or the parts themselves; at the same
    step if not `staggered`. compressor, feedback: see `Exchange`. overlap: steps of training
    between the sending of an outer gradient and the outer step with its mean. keep: the share of
    a replica's own parameters in those that it goes on with then, beside the global ones; 0
    forgets what it did meanwhile.
    weight: of this replica in the means; 0 while it has nothing to give. sent: bytes so far.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        every: int,
        outer: Outer = nesterov,
        group: dist.ProcessGroup | None = None,
        *,
        fragments: int | Sequence[Sequence[nn.Parameter]] = 1,
        compressor: Compressor | None = None,
        feedback: bool = True,
        staggered: bool = True,
        overlap: int = 0,
        keep: float = 0.0,
    ):
        self.parameters = list(parameters)
        if isinstance(fragments, int):
            fragments = cut_evenly(self.parameters, fragments)
        self.fragments = [list(fragment) for fragment in fragments]
        _check(every, overlap, self.fragments, self.parameters)
        self.every, self.overlap, self.keep, self.staggered = every, overlap, keep, staggered
        self.exchange = Exchange(group, compressor, feedback)
        self.steps = self.meetings = 0
        self.weight = 1.0
        _broadcast(self.parameters, group)
        self.globals = {p: nn.Parameter(p.detach().clone()) for p in self.parameters}
        self.outer = outer(self.globals.values())
        self.pending: dict[int, tuple[int, Pending]] = {}  # of a fragment: when it is due

    @property
    def sent(self) -> int:
        """Bytes that this rank has sent, as a ring sends them."""
        return self.exchange.sent

    def step(self) -> bool:
        """After each inner step, on all ranks. Returns whether a meeting ended with it."""
        self.steps += 1
        count = len(self.fragments)
        for i in range(count):
            if is_due(self.steps, self.every, i if self.staggered else count - 1, count):
                self.pending[i] = self.steps + self.overlap, self._begin(i)
        done = [i for i, (due, _) in self.pending.items() if due == self.steps]
        for i in done:
            self._finish(i, self.pending.pop(i)[1].wait())
        return bool(done)

    @torch.no_grad()
    def _begin(self, fragment: int) -> Pending:
        apart = [to_local(self.globals[p]) - to_local(p) for p in self.fragments[fragment]]
        return self.exchange.begin(apart, fragment, self.weight)

    @torch.no_grad()
    def _finish(self, fragment: int, means: list[torch.Tensor]) -> None:
        """The outer step of one fragment, from which this replica goes on."""
        mine = self.fragments[fragment]
        self.outer.zero_grad()  # those of other fragments have none, and stay as they are
        for parameter, mean in zip(mine, means, strict=True):
            self.globals[parameter].grad = from_local(mean, parameter)
        self.outer.step()
        self.outer.zero_grad()
        self.meetings += 1
        for parameter in mine:
            own, agreed = to_local(parameter), to_local(self.globals[parameter])
            own.copy_(agreed.lerp(own, self.keep) if self.keep else agreed)

    @contextmanager
    def agreed(self) -> Iterator[None]:
        """Within a ``with`` block, parameters are the global ones: to evaluate or to save them."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for parameter, agreed in self.globals.items():
            own = to_local(parameter).clone()
            to_local(parameter).copy_(to_local(agreed))
            to_local(agreed).copy_(own)

    def regroup(self, group: dist.ProcessGroup | None) -> bool:
        """Go on with the ranks of `group`, all of which call; return whether this one is new there.

        A newcomer is one that has been at fewer meetings than others. It gets the global
        parameters and the outer optimizer's state; what it trained alone is lost, and its inner
        optimizer's moments are its own business. The others keep all that is theirs.
        Raises RuntimeError while an outer gradient is on its way (`overlap`).
        """
        if self.pending:
            raise RuntimeError(
                "an outer gradient is on its way to the old group; regroup after its meeting"
            )
        self.exchange.group = group
        return self._catch_up(group)

    @torch.no_grad()
    def _catch_up(self, group: dist.ProcessGroup | None) -> bool:
        """Bring the ranks of `group` to the state of the one that was at most meetings."""
        own = torch.tensor([self.meetings, self.steps])
        device = next(iter(self.globals)).device
        seen = [torch.empty_like(own, device=device) for _ in range(dist.get_world_size(group))]
        dist.all_gather(seen, own.to(device), group=group)
        progress: list[list[int]] = torch.stack(seen).tolist()
        ahead = max(progress)
        source = progress.index(ahead)
        behind = self.meetings < ahead[0]
        _broadcast(self.globals.values(), group, source)
        sent: list[Any] = [self.outer.state_dict()]
        dist.broadcast_object_list(sent, group=group, group_src=source, device=device)
        self.outer.load_state_dict(sent[0])
        self.meetings, self.steps = ahead
        if behind:
            self.residuals.clear()
            for parameter, agreed in self.globals.items():
                to_local(parameter).copy_(to_local(agreed))
        return behind

    def state_dict(self) -> dict[str, Any]:
        """What the replicas have in common: tensors are the living ones.

        What is on its way is waited for. A replica's own are its parameters, its inner optimizer
        and `residuals`.
        """
        return {
            "steps": self.steps,
            "meetings": self.meetings,
            "globals": [p.detach() for p in self.globals.values()],
            "outer": self.outer.state_dict(),
            "pending": {i: (due, pending.wait()) for i, (due, pending) in self.pending.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a `state_dict` of the same model, cut in the same way."""
        self.steps, self.meetings = state["steps"], state["meetings"]
        with torch.no_grad():
            for p, kept in zip(self.globals.values(), state["globals"], strict=True):
                p.copy_(kept)
        self.outer.load_state_dict(state["outer"])
        self.pending = {
            i: (due, Pending.done(means)) for i, (due, means) in state["pending"].items()
        }

    @property
    def residuals(self) -> dict:
        """What this replica's messages have left out so far, by fragment; may be replaced."""
        return self.exchange.feedback.residual if self.exchange.feedback else {}


class LocalSGD(DiLoCo):
    """Replicas take `every` inner steps alone; then all go on from the mean of their parameters.

    With plain SGD as inner optimizer and every=1 this is data parallelism; with AdamW it is not,
    as a mean of normalised steps is no step along a mean gradient. The other arguments are those
    of `DiLoCo`, of which it is the case with an outer step of SGD with learning rate 1.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        every: int,
        group: dist.ProcessGroup | None = None,
        **settings: Any,
    ):
        super().__init__(parameters, every, plain, group, **settings)


def _check(every: int, overlap: int, fragments: list[list], parameters: list) -> None:
    if every < 1:
        raise ValueError(f"replicas that meet every {every} steps; use 1 or more")
    if not 0 <= overlap < every:
        raise ValueError(
            f"an outer gradient that is waited for after {overlap} steps, of {every} between "
            f"meetings; use 0 to {every - 1}"
        )
    met = [id(p) for fragment in fragments for p in fragment]
    if sorted(met) != sorted(map(id, parameters)):
        raise ValueError("each parameter must be in one fragment, and in one only")


@torch.no_grad()
def _broadcast(
    parameters: Iterable[nn.Parameter], group: dist.ProcessGroup | None, source: int = 0
) -> None:
    """Give each rank of `group` the values that rank `source` of it has, in place."""
    for parameter in parameters:
        dist.broadcast(to_local(parameter).detach(), group=group, group_src=source)
