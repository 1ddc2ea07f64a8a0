"""What Trainer tells in the course of a run: a bar for the terminal, lines of JSON, lists."""

from dataclasses import dataclass, field
from pathlib import Path

from rankbook.programs.report import Log, Progress


@dataclass
class TrainingLog:
    """What Trainer tells in the course of a run, on this rank; rank 0 also writes it down."""

    log: Log
    bar: Progress
    losses: list[float] = field(default_factory=list)
    valid_losses: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)  # of all ranks, by epoch

    def begin(self, path: Path | None, about: dict) -> None:
        """Write it down at `path`, what is run first; on rank 0. Raises OSError."""
        self.log = Log(path)
        self.log.write(start=about)

    def take(self, step: int, logs: dict[str, float]) -> None:
        """What Trainer logs after some steps, and after an evaluation."""
        if "loss" in logs:
            self.losses.append(logs["loss"])
            names = {"loss": "loss", "norm": "grad_norm", "lr": "learning_rate"}
            self.log.write(step=step, **{name: logs.get(its) for name, its in names.items()})
            self.bar.update(step, f"loss {logs['loss']:.3f}")
        elif "eval_loss" in logs:
            self.valid_losses.append(logs["eval_loss"])
            self.log.write(step=step, valid_loss=logs["eval_loss"])
            self.bar.say(f"step {step}: validation loss {logs['eval_loss']:.3f}")

    def ended(self, epoch: int, samples: int) -> None:
        """After each time that the text was read, by all ranks together."""
        self.samples.append(samples)
        self.log.write(epoch=epoch, samples=samples)
