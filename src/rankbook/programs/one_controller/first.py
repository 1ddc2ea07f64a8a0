"""The first program that one writes with Monarch: start ranks, give an order, take the answers."""

from monarch.actor import this_host  # pyrefly: ignore[missing-import]

from rankbook.programs.one_controller.ranks import Rank


class First:
    """Two ranks, and a controller that trusts them."""

    def __init__(self, store: str):
        procs = this_host().spawn_procs({"gpus": 2})
        self.ranks = procs.spawn("ranks", Rank)
        self.ranks.join.call(store).get()

    def step(self, fault: str | None = None) -> list[list[float]]:
        """What the ranks gave, in their order."""
        return list(self.ranks.step.call(fault).get().values())
