"""Trainer as the options say, with checkpoints that are whole or absent.

Needs ``transformers``, and loads it: import this where it is used.
"""

from typing import Any

import torch
from torch.optim import Optimizer
from transformers import TrainerCallback, TrainingArguments

from rankbook.core.agreement import gather, rank_and_world
from rankbook.data.equal_steps import EqualStepsLoader
from rankbook.data.lines import ShardedLines
from rankbook.programs.train_lm_trainer.options import Options
from rankbook.programs.train_lm_trainer.training_log import TrainingLog
from rankbook.training import trainer
from rankbook.training.checkpoint import Checkpoints, Saved, capture


class CheckpointedTrainer(trainer.LinesTrainer):
    """A Trainer that keeps its state in `checkpoints`, and goes on from `saved`.

    Trainer's own checkpoints are several files in a folder that has its name from the start: a
    run that is killed while it saves leaves one that is torn. And it finds its place in the data
    by accelerate's ``skip_first_batches``, which makes a new loader of the parts of a DataLoader;
    the batches of an EqualStepsLoader need all ranks.
    """

    def __init__(
        self, *args, checkpoints: Checkpoints | None = None, saved: Saved | None = None, **kwargs
    ):
        super().__init__(*args, **kwargs)
        self.checkpoints, self.saved = checkpoints, saved
        self.batches: EqualStepsLoader | None = None
        if saved:
            self.add_callback(_GoOn(self))

    def get_train_dataloader(self) -> EqualStepsLoader:
        """As in `LinesTrainer`; from behind the last batch that was trained on."""
        self.batches = super().get_train_dataloader()
        if self.saved:
            self.batches.load_state_dict(self.saved.state["position"]["data"])
        return self.batches

    def _save_checkpoint(self, model, trial=None) -> None:
        """What Trainer calls when it is time to, after it has logged and evaluated."""
        assert self.checkpoints is not None and self.batches is not None
        position = {
            "data": self.batches.state_dict(),
            "loss": gather(self._tr_loss.item()),  # of each rank, since something was logged
            "logged": self._globalstep_last_logged,
        }
        state = capture(model, bare_optimizer(self.optimizer), position, self.lr_scheduler)
        self.checkpoints.save(self.state.global_step, state)

    def go_on(self) -> None:
        """Make the state of this Trainer, which is about to begin, that of `saved`."""
        assert self.saved is not None and self.model is not None
        optimizer = bare_optimizer(self.optimizer)
        position = self.saved.load_into(self.model, optimizer, self.lr_scheduler)
        self.state.global_step = self.saved.step
        self._globalstep_last_logged = position["logged"]
        self._tr_loss.fill_(position["loss"][rank_and_world()[0]])


class _GoOn(TrainerCallback):
    """Model, optimizer and scheduler are there, and wrapped, when training begins."""

    def __init__(self, of: CheckpointedTrainer):
        self.of = of

    def on_train_begin(self, args, state, control, **kwargs):
        self.of.go_on()


def bare_optimizer(optimizer: Any) -> Optimizer:
    """The optimizer without accelerate's wrapping."""
    return getattr(optimizer, "optimizer", optimizer)


def make_trainer(
    options: Options,
    tokenizer,
    model,
    device: torch.device,
    log: TrainingLog,
    checkpoints: Checkpoints | None,
    saved: Saved | None,
) -> CheckpointedTrainer:
    """Trainer as the options say, with what it reads and to whom it tells it."""
    trainer.quiet(device)
    alone: dict[str, Any] = {"rank": 0, "world_size": 1} if options.read == "first" else {}
    lines = ShardedLines(
        options.train_file, shuffle=True, seed=options.seed, skip_blank=True, **alone
    )
    valid = ShardedLines(options.valid_file, skip_blank=True) if options.valid_file else None
    return CheckpointedTrainer(
        model,
        training_arguments(options, device),
        trainer.LineCollator(tokenizer, options.length, fixed=options.read == "first"),
        lines,
        valid,
        processing_class=tokenizer,
        way=options.read,
        listener=log,
        checkpoints=checkpoints,
        saved=saved,
    )


def training_arguments(options: Options, device: torch.device) -> TrainingArguments:
    """The options under the names that transformers 5 gives them."""
    return TrainingArguments(
        output_dir=str(options.output or "."),
        per_device_train_batch_size=options.share,
        per_device_eval_batch_size=options.share,
        gradient_accumulation_steps=options.accumulate,
        max_steps=options.steps,
        learning_rate=options.lr,
        warmup_steps=options.warm_up,
        seed=options.seed,
        bf16=options.bf16,
        eval_strategy="steps" if options.evaluate_every else "no",
        eval_steps=options.evaluate_every,
        logging_steps=options.log_every,
        dataloader_num_workers=options.workers,
        ddp_find_unused_parameters=False,
        remove_unused_columns=False,
        save_strategy="steps" if options.checkpoint else "no",
        save_steps=options.save_every,
        disable_tqdm=True,
        report_to="none",
        use_cpu=device.type == "cpu",
    )
