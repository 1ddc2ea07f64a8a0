"""A row of the ladder: one recipe's warm-up, its timed passes, and what they measured."""

import contextlib
import gc

import torch
from torch._inductor.utils import fresh_cache
from torch.utils.data import DataLoader

from rankbook.core.timing import spread
from rankbook.predict.memory.resident import PeakMemory
from rankbook.speed.compiling import graphs
from rankbook.speed.loop import Pass, Training, loader_of
from rankbook.speed.machine import measure_machine
from rankbook.speed.measure import device_peak, share_of_peak, state_bytes, step_flop
from rankbook.speed.moving import move
from rankbook.speed.recipes import Recipe
from rankbook.speed.reviews import Reviews
from rankbook.speed.runners import RUNNERS
from rankbook.speed.sizes import Size
from rankbook.speed.skipping import reason_to_skip


class Row:
    """One recipe's state between its turns, and what it measured.

    `skipped`, `error`: a sentence, if it cannot run here, or has failed. `turns`: its timed passes.
    """

    def __init__(self, recipe: Recipe, size: Size, reviews: Reviews, device, seed: int):
        self.recipe, self.size, self.reviews = recipe, size, reviews
        self.device, self.seed = device, seed
        self.skipped = reason_to_skip(recipe, device)
        self.error: str | None = None
        self.training: Training | None = None
        self.stream: DataLoader | None = None
        self.first: Pass | None = None
        self.turns: list[Pass] = []
        self.peaks: list[int | None] = []
        self.graphs = self.recompiles = self.held = 0
        self.facts: dict = {}

    @property
    def runs(self) -> bool:
        return not (self.skipped or self.error)

    @property
    def warm_up(self) -> Pass:
        """The first pass, of a row that runs and has had its turn."""
        assert self.first is not None
        return self.first

    def take_turn(self) -> None:
        """One pass over the batches; the first one is the warm-up."""
        try:
            self._warm_up() if self.training is None else self._timed_pass()
        except Exception as error:  # whatever a row meets, on a borrowed machine the others go on
            self.error = _sentence(self.recipe, self.size, error)
        if self.error:  # after the except clause: the traceback holds tensors until then
            self.free()

    def _warm_up(self) -> None:
        """The first pass, over all batches that are timed: a row compiles here, in a cache of its
        own, so that none profits from what another has compiled."""
        before, outside = graphs(), _allocated(self.device)
        with fresh_cache() if self.recipe.compile else contextlib.nullcontext():
            self.training = Training(self.recipe, self.size, self.device, seed=self.seed)
            self.first, _ = self._pass(self.training)
            if self.recipe.compile == "reduce-overhead":
                self._pass(self.training)  # a CUDA graph is recorded when a shape comes again
        self.graphs = graphs() - before
        self.facts = {"weights": self.training.source}
        # what it keeps between its turns: on a GPU, recorded graphs keep some too
        state = state_bytes(self.training.model, self.training.optimizer)
        self.held = _allocated(self.device) - outside or sum(state.values())
        self._aside(self.training)

    def _timed_pass(self) -> None:
        assert self.training is not None
        before = graphs()
        _move(self.training, self.device)
        done, grown = self._pass(self.training)
        self.recompiles += graphs() - before
        self.turns.append(done)
        self.peaks.append(grown)
        self._aside(self.training)

    def _pass(self, training: Training) -> tuple[Pass, int | None]:
        if self.stream is None:  # its workers stay: a fork has the next pass copy pages it writes
            self.stream = loader_of(self.recipe, self.size, self.reviews, seed=self.seed)
        with PeakMemory(self.device) as memory:
            done = RUNNERS[self.recipe.runner](training, self.stream)
        training.optimizer.zero_grad()
        return done, memory.grown

    def _aside(self, training: Training) -> None:
        if self.recipe.compile != "reduce-overhead":  # a CUDA graph knows its addresses
            _move(training, "cpu")

    def free(self) -> None:
        """Give the memory of the model and the optimizer back."""
        self.training = self.stream = None
        if self.device.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()

    def said(self, turn: int, repeats: int) -> str:
        """A line on the last pass."""
        if self.error:
            return self.error
        done = (self.turns or [self.warm_up])[-1]
        what = f"turn {turn} of {repeats}" if turn else "warm-up"
        return f"{self.recipe.name}: {what}, {done.seconds:.2f} s"

    def result(self) -> dict:
        """The row of the table."""
        recipe = self.recipe
        row = {name: getattr(recipe, name) for name in ("name", "base", "side", "about")}
        row["recipe"] = recipe.switches()
        if not self.runs:
            return row | ({"skipped": self.skipped} if self.skipped else {"error": self.error})
        return row | self._timed() | self.facts

    def _timed(self) -> dict:
        first = self.warm_up
        done = self.turns or [first]
        times = spread(turn.seconds for turn in done)
        median = times["median"]
        flop = step_flop(self.size.model, self.reviews.lengths)
        of_peak = share_of_peak(flop / median, self.device)
        return {
            "samples": done[0].samples,
            "steps": len(done[0].losses),
            "tokens": done[0].tokens,
            "computed": done[0].computed,
            "repeats": len(self.turns),
            "turns": [turn.seconds for turn in self.turns],
            "seconds": times,
            "samples_per_s": done[0].samples / median,
            "tokens_per_s": done[0].tokens / median,
            "first_s": first.seconds,
            "compile_s": first.seconds - median if self.recipe.compile else None,
            "graphs": self.graphs,
            "recompiles": self.recompiles,
            "peak_bytes": self._peak_bytes(),
            "flop": flop,
            "flop_per_s": flop / median,
            "peak_flop_per_s": device_peak(self.device),
            "peak_share": of_peak,
            "vendor_flop_per_s": measure_machine(self.device).vendor,
            "losses": first.losses,
        }

    def _peak_bytes(self) -> int | None:
        peaks = [peak for peak in self.peaks if peak is not None]
        return self.held + max(peaks) if peaks else None


def _allocated(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def _move(training: Training, device: torch.device | str) -> None:
    """Bring a row's weights and Adam's moments to `device`, to make room for other rows.

    Twenty rows of DistilBERT are 20 GB, and a pass moves 0.8 GB twice. Building the rows anew for
    each turn would save that, but they would have to compile each time.
    """
    if training.device.type != "cpu":
        move(training.model, training.optimizer, device)


def _sentence(recipe: Recipe, size: Size, error: Exception) -> str:
    """Why a row failed, in one sentence."""
    text = str(error).strip().splitlines()[:1] or [""]
    memory = isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate" in text[0]
    if not memory:
        return f"{recipe.name}: {type(error).__name__}: {text[0]}"
    batch = f"{recipe.batch(size)} samples a step"
    if recipe.accumulate > 1:
        batch += f" in {recipe.accumulate} microbatches"
    return (
        f"{recipe.name}: out of memory with {batch}; use a smaller batch, more microbatches, "
        "packing, or checkpointing"
    )
