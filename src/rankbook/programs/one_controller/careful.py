"""A controller that says which rank failed or where it hangs, and makes the ranks work again."""

import asyncio
import os
import re

os.environ.setdefault("HYPERACTOR_MESH_SUPERVISION_POLL_FREQUENCY", "1s")  # 10 s by default
os.environ.setdefault("HYPERACTOR_MESH_GET_ACTOR_STATE_MAX_IDLE", "2s")  # 30 s
os.environ.setdefault("TORCH_DISTRIBUTED_DEBUG", "DETAIL")  # torch compares the ranks' calls

import monarch.actor  # pyrefly: ignore[missing-import]
from monarch.actor import this_host  # pyrefly: ignore[missing-import]

from rankbook.programs.one_controller.ranks import Rank, Watcher

PATIENCE, GRACE = 5.0, 5.0  # seconds: until somebody asks; until a victim's error has its cause
VICTIM = re.compile(r"[Cc]onnection (closed|reset)|Timed out|failed to pass")  # of another rank

monarch.actor.unhandled_fault_hook = lambda failure: None  # by default it ends the controller


class Careful:
    """Ranks, each with a watcher beside it."""

    def __init__(self, size: int = 2):
        self.size = size

    async def start(self, store: str) -> None:
        """New processes, a rank and a watcher in each, and a group."""
        self.procs = this_host().spawn_procs({"gpus": self.size})
        self.ranks = self.procs.spawn("ranks", Rank)
        self.watchers = self.procs.spawn("watchers", Watcher)
        await self.ranks.join.call(store)

    async def step(self, fault: str | None = None) -> list[list[float]]:
        """What the ranks gave. Raises RuntimeError: a line for each, causes first."""
        self.answers = [
            asyncio.ensure_future(self.ranks.slice(gpus=r).step.call_one(fault).as_asyncio())
            for r in range(self.size)
        ]
        await asyncio.wait(self.answers, timeout=PATIENCE, return_when=asyncio.FIRST_EXCEPTION)
        if (failed := errors(self.answers)) and all(map(is_victim, failed.values())):
            await asyncio.wait(self.answers, timeout=GRACE)
        if not errors(self.answers) and all(a.done() for a in self.answers):
            return [a.result() for a in self.answers]
        failed = sorted(errors(self.answers).items(), key=lambda item: is_victim(item[1]))
        lines = [f"rank {rank}: {last_line(error)}" for rank, error in failed]
        silent = [rank for rank, answer in enumerate(self.answers) if not answer.done()]
        raise RuntimeError("\n".join([*lines, *[await self.where(rank) for rank in silent]]))

    async def where(self, rank: int) -> str:
        """What the watcher of a rank says."""
        place = self.watchers.slice(gpus=rank).where.call_one()
        try:
            return f"rank {rank} {await asyncio.wait_for(place.as_asyncio(), GRACE)}"
        except Exception:  # its process may be gone, and Monarch not have noticed yet
            return f"rank {rank} does not answer"

    async def repair(self, store: str) -> str:
        """After a failed step: a new group, in new processes if it must be. Says which."""
        if all(is_alive(error) for error in errors(self.answers).values()):
            free = [r for r, answer in enumerate(self.answers) if answer.done()]
            for rank in free:  # those who still wait for them fail now
                await self.watchers.slice(gpus=rank).leave.call_one()
            await asyncio.wait(self.answers, timeout=GRACE if free else 0)
            if free and all(a.done() for a in self.answers):
                await self.watchers.leave.call()
                await self.ranks.join.call(store)
                return "a new group"
        await self.procs.stop()
        await self.start(store)
        return "new processes"


def errors(answers: list[asyncio.Future]) -> dict[int, BaseException]:
    """Which ranks failed, and of what."""
    return {r: e for r, a in enumerate(answers) if a.done() and (e := a.exception())}


def last_line(error: BaseException) -> str:
    """Of its text, which has the traceback of the rank before it."""
    return str(error).strip().splitlines()[-1].strip()


def is_victim(error: BaseException) -> bool:
    """Whether it only says that another rank is gone, or does not come."""
    return bool(VICTIM.search(str(error)))


def is_alive(error: BaseException) -> bool:
    """Whether the process is still there in which an endpoint raised `error`."""
    return type(error).__name__ != "SupervisionError"
