"""A run through lists of actions, by a clock that costs no time."""

from collections.abc import Callable

from rankbook.parallel.pipeline.durations import Overheads
from rankbook.parallel.pipeline.planned_actions import ActionLists, PlannedAction
from rankbook.parallel.pipeline.timeline import Action, Timeline


class ListRun:
    """Ranks that go through their lists as far as they can, and wait for what is not there yet.

    seconds: how long the work of an action takes. delay: of a message, for (sender, receiver).
    """

    def __init__(
        self,
        lists: ActionLists,
        seconds: Callable[[PlannedAction], float],
        delay: Callable[[int, int], float],
        overheads: Overheads,
    ):
        self.seconds, self.delay, self.overheads = seconds, delay, overheads
        # each rank's actions, each with: is it the last of those that are joined to one?
        self.lists = {
            rank: [(action, action is joined[-1]) for joined in actions for action in joined]
            for rank, actions in lists.items()
        }
        self.last = max(action.stage for planned in self.lists.values() for action, _ in planned)
        self.done = dict.fromkeys(lists, 0)  # how many actions, by rank
        self.clock = dict.fromkeys(lists, 0.0)
        self.work = dict.fromkeys(lists, 0.0)
        self.outbox = {rank: [] for rank in lists}  # results of an action that is not over
        self.here = {rank: {} for rank in lists}  # a rank's own results, and since when
        self.sent = {}  # results for other ranks: who sent them, and when
        self.waiting = {}  # a result, and the ranks that wait for it
        self.actions = []

    def timeline(self) -> Timeline:
        """What all ranks did. Raises ValueError if they wait for each other for ever."""
        ready = list(self.lists)
        while ready:
            ready += self._advance(ready.pop())
        if any(self.done[rank] < len(planned) for rank, planned in self.lists.items()):
            raise ValueError(self._deadlock())
        return Timeline(self.actions, work=self.work)

    def _advance(self, rank: int) -> list[int]:
        """Go on with `rank` until it must wait, or is done; the ranks that need no longer wait."""
        planned, freed = self.lists[rank], []
        while self.done[rank] < len(planned):
            action, closes = planned[self.done[rank]]
            start = self.clock[rank] + (self.overheads.between if self.done[rank] else 0.0)
            for result in self._inputs(action):
                since = self._since(rank, result)
                if since is None:
                    self.waiting.setdefault(result, []).append(rank)
                    return freed
                start = max(start, since)
            self._do(rank, action, start)
            if closes:
                for result in self.outbox[rank]:
                    self.sent[result] = rank, self.clock[rank]
                    freed += self.waiting.pop(result, ())
                self.outbox[rank].clear()
        return freed

    def _do(self, rank: int, action: PlannedAction, start: float) -> None:
        work = self.seconds(action)
        # stage 0's I does nothing, and costs nothing
        more = self.overheads.inside.get(action.kind, 0.0) if work else 0.0
        end = self.clock[rank] = start + work + more
        self.actions.append(Action(rank, *action, start, end))
        self.work[rank] += work
        self.done[rank] += 1
        if action.kind != "W":
            result = action.stage, "F" if action.kind == "F" else "B", action.microbatch
            self.here[rank][result] = end
            self.outbox[rank].append(result)

    def _since(self, rank: int, result: tuple[int, str, int]) -> float | None:
        """Since when `rank` has `result`; None as long as it has not been sent."""
        if result in self.here[rank]:
            return self.here[rank][result]
        if result not in self.sent:
            return None
        sender, end = self.sent[result]
        return end + self.overheads.message + self.delay(sender, rank)

    def _inputs(self, action: PlannedAction) -> list[tuple[int, str, int]]:
        """The results that `action` needs; "B" is a gradient, of a whole backward or of I."""
        stage, kind, microbatch = action
        if kind == "F":
            return [(stage - 1, "F", microbatch)] if stage else []
        if kind == "W":
            return [(stage, "B", microbatch)]
        gradient = [(stage + 1, "B", microbatch)] if stage < self.last else []
        return [(stage, "F", microbatch), *gradient]

    def _deadlock(self) -> str:
        stuck = sorted((rank, result) for result, ranks in self.waiting.items() for rank in ranks)
        waits = [
            f"rank {rank} cannot start {self.lists[rank][self.done[rank]][0].name} before "
            f"{result[0]}{result[1]}{result[2]}"
            for rank, result in stuck
        ]
        more = f", and {len(waits) - 3} more" if len(waits) > 3 else ""
        return f"the action lists never end: {', '.join(waits[:3])}{more}; change their order"
