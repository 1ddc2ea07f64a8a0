"""Recipes side by side in one run: they take turns, so that a slow minute is slow for all."""

import gc
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

import torch

from rankbook.speed.batches import Batch, Order
from rankbook.speed.compiling import graphs
from rankbook.speed.epochs import train
from rankbook.speed.loop import Pass, Training, loader_of
from rankbook.speed.measure import PeakMemory, matmul_peak, spread, state_bytes, step_flop
from rankbook.speed.recipes import Recipe, changed
from rankbook.speed.reviews import Reviews
from rankbook.speed.runners import RUNNERS
from rankbook.speed.sizes import Size
from rankbook.speed.skipping import reason_to_skip


def run(
    recipes: Sequence[Recipe],
    size: Size,
    reviews: Reviews | dict[str, Reviews],
    *,
    device: torch.device | str = "cpu",
    steps: int | None = None,
    repeats: int = 3,
    seed: int = 0,
    accuracy: int | None = None,
    say: Callable[[str], None] | None = None,
) -> list[dict]:
    """Time `recipes` on the same samples, in turns; one row for each, in their order.

    reviews: the training reviews, or all splits, which `accuracy` needs: the epochs of a training
    of its own. steps: how many of the plain recipe's make one pass, the whole split if None.
    The first pass of each recipe is its warm-up, in which it compiles; its losses are kept. Then
    come `repeats` rounds of a pass each. Rows of equal shapes share what was compiled: the first
    of them pays for it. `say` takes a line after each pass.

    A row that cannot run here has `skipped`, one that failed has `error`, in a sentence; the
    others go on. Raises ValueError for more steps than there are samples.
    """
    device = torch.device(device)
    splits = reviews if isinstance(reviews, dict) else {"train": reviews}
    samples = splits["train"]
    if steps is not None:
        samples = samples.first(steps * size.batch)
    rows = [_Row(recipe, size, samples, device, seed) for recipe in recipes]
    for turn in range(repeats + 1):
        running = [row for row in rows if row.runs]
        first = turn % max(len(running), 1)
        for row in running[first:] + running[:first]:
            row.take_turn(turn)
            if say:
                say(row.said(turn, repeats))
    for row in rows:
        row.free()  # for what is measured next
    if accuracy is not None:
        for row in rows:
            row.train(splits, accuracy, say)
    return _finished([row.result() for row in rows], recipes)


class _Row:
    """One recipe's state between its turns, and what it measured."""

    def __init__(self, recipe: Recipe, size: Size, reviews: Reviews, device, seed: int):
        self.recipe, self.size, self.reviews = recipe, size, reviews
        self.device, self.seed = device, seed
        self.skipped = reason_to_skip(recipe, device)
        self.error: str | None = None
        self.training: Training | None = None
        self.first: Pass | None = None
        self.turns: list[Pass] = []
        self.peaks: list[int | None] = []
        self.graphs = self.recompiles = self.held = self._after_one = 0
        self.facts: dict = {}

    @property
    def runs(self) -> bool:
        return not (self.skipped or self.error)

    @property
    def warm_up(self) -> Pass:
        """The first pass, of a row that runs and has had its turn."""
        assert self.first is not None
        return self.first

    def take_turn(self, turn: int) -> None:
        """One pass over the samples, in this turn's order."""
        self._or_say_why_not(lambda: self._pass(turn))

    def train(self, splits: dict[str, Reviews], epochs: int, say) -> None:
        """Train anew for `epochs`, and note how accurate that is."""
        if self.runs:
            self._or_say_why_not(lambda: self._train(splits, epochs, say))

    def _train(self, splits: dict[str, Reviews], epochs: int, say) -> None:
        done = train(self.recipe, self.size, splits, epochs=epochs, seed=self.seed,
                     device=self.device, say=say)  # fmt: skip
        names = ("validation", "best_epoch", "test_last", "test_best")
        self.facts |= {name: getattr(done, name) for name in names}

    def _pass(self, turn: int) -> None:
        outside, training = _allocated(self.device), self.training
        fresh = training is None
        if training is None:
            training = Training(self.recipe, self.size, self.device, seed=self.seed)
            self.training = training
        _move(training, self.device)
        stream = loader_of(self.recipe, self.size, self.reviews, seed=self.seed)
        cast(Order, stream.batch_sampler).set_epoch(turn)
        before = graphs()
        with PeakMemory(self.device) as memory:
            done = RUNNERS[self.recipe.runner](training, self._watched(stream))
        training.optimizer.zero_grad()
        self.graphs += graphs() - before
        self.recompiles += graphs() - (self._after_one if fresh else before)
        if fresh:
            self.first = done
            self.facts = {"weights": training.source}
            # what it keeps between its turns: on a GPU, recorded graphs keep some too
            state = state_bytes(training.model, training.optimizer)
            self.held = _allocated(self.device) - outside or sum(state.values())
        else:
            self.turns.append(done)
            self.peaks.append(memory.grown)
        if self.recipe.compile != "reduce-overhead":  # a CUDA graph knows its addresses
            _move(training, "cpu")

    def _watched(self, stream: Iterable[Batch]) -> Iterator[Batch]:
        """`stream`, noting how many graphs there were once the first step was done."""
        for number, batch in enumerate(stream):
            yield batch  # asked for the next, the step has been done
            if number == 0:
                self._after_one = graphs()

    def _or_say_why_not(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (RuntimeError, MemoryError) as error:
            self.error = _sentence(self.recipe, self.size, error)
        if self.error:  # after the except clause: the traceback holds tensors until then
            self.free()

    def free(self) -> None:
        """Give the memory of the model and the optimizer back."""
        self.training = None
        if self.device.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()

    def said(self, turn: int, repeats: int) -> str:
        """A line on the last pass."""
        if self.error:
            return self.error
        done = (self.turns or [self.warm_up])[-1]
        what = f"round {turn} of {repeats}" if turn else "warm-up"
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
        peak = matmul_peak(self.recipe.precision, self.device)
        return {
            "samples": done[0].samples,
            "steps": len(done[0].losses),
            "tokens": done[0].tokens,
            "computed": statistics.mean(turn.computed for turn in done),
            "repeats": len(self.turns),
            "seconds": times,
            "samples_per_s": done[0].samples / median,
            "tokens_per_s": done[0].tokens / median,
            "first_s": first.seconds,
            "compile_s": max(0.0, first.seconds - median) if self.turns else None,
            "graphs": self.graphs,
            "recompiles": self.recompiles,
            "peak_bytes": self._peak_bytes(),
            "flop": flop,
            "flop_per_s": flop / median,
            "peak_flop_per_s": peak,
            "peak_share": flop / median / peak,
            "losses": first.losses,
        }

    def _peak_bytes(self) -> int | None:
        peaks = [peak for peak in self.peaks if peak is not None]
        return self.held + max(peaks) if peaks else None


def _finished(rows: list[dict], recipes: Sequence[Recipe]) -> list[dict]:
    """`rows` with what only all of them tell: the switch from the base, and the speed-up."""
    known = {recipe.name: recipe for recipe in recipes}
    timed = [row for row in rows if "seconds" in row]
    for row in rows:
        base = known.get(row["base"])
        row["switch"] = changed(known[row["name"]], base) if base else {}
    for row in timed:
        row["speed_up"] = row["samples_per_s"] / timed[0]["samples_per_s"]
    return rows


def _allocated(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def _move(training: Training, device: torch.device | str) -> None:
    """Bring a row's weights and Adam's moments to `device`, to make room for other rows.

    Twenty rows of DistilBERT are 20 GB, and a pass moves 0.8 GB twice. Building the rows anew for
    each turn would save that, but they would have to compile each time.
    """
    if training.device.type == "cpu":
        return
    for parameter in training.model.parameters():
        parameter.data = parameter.data.to(device)
    for slots in training.optimizer.state.values():
        for name, slot in slots.items():
            if torch.is_tensor(slot) and slot.dim():
                slots[name] = slot.to(device)


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
