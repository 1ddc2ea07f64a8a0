"""transformers' Trainer for a language model, fed by one of two ways that read each line once.

Needs ``transformers``, and loads it: import this where it is used.
"""

import os
from typing import Protocol

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from transformers import PrinterCallback, Trainer, TrainerCallback
from transformers.utils import logging

from rankbook.data.equal_steps import IGNORED, EqualStepsLoader


class LineCollator:
    """Makes batches of lines: ids and labels, (samples, tokens), padded with the label -100.

    tokenizer: one of transformers. length: tokens of a sample at most. fixed: pad to `length`,
    not to the longest of the batch. The first token has no label, as nothing stands before it.
    """

    def __init__(self, tokenizer, length: int, fixed: bool = False):
        self.tokenizer, self.length, self.fixed = tokenizer, length, fixed

    def __call__(self, lines: list[str]) -> dict[str, torch.Tensor]:
        padding = "max_length" if self.fixed else "longest"
        options = {"truncation": True, "max_length": self.length, "padding": padding}
        rows = self.tokenizer(lines, **options, padding_side="right", return_tensors="pt")
        ids, mask = rows["input_ids"], rows["attention_mask"]
        labels = ids.masked_fill(mask == 0, IGNORED)
        labels[:, 0] = IGNORED
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def token_sum(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The sum of the next tokens' losses, in nats; those labelled -100 do not count.

    logits: (samples, tokens, vocabulary). labels: (samples, tokens), not shifted.
    """
    flat, targets = logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten()
    return cross_entropy(flat, targets, ignore_index=IGNORED, reduction="sum")


class Listener(Protocol):
    """Who is told what happens, on every rank."""

    def take(self, step: int, logs: dict[str, float]) -> None:
        """What Trainer logs, after optimizer step `step`."""

    def ended(self, epoch: int, samples: int) -> None:
        """The lines were read in `epoch`, from 0; all ranks together had `samples`."""


class LinesTrainer(Trainer):
    """A Trainer whose ranks see every line of `train_dataset` once in an epoch.

    way: "shares": the data set gives each rank its own share (`ShardedLines`), and what Trainer
    would do to the loader is left out: it would share out a second time. "first": the data set
    leaves the ranks out (``rank=0, world_size=1``), rank 0 reads all of it and sends the others
    their part of each batch; the collator has to pad to a fixed length.

    The loss is a mean over the tokens of all ranks, in training and in `evaluate`; Trainer's own
    ``eval_loss`` is a mean over batches.
    """

    def __init__(self, *args, way: str = "shares", listener: Listener | None = None, **kwargs):
        super().__init__(*args, compute_loss_func=_token_mean, **kwargs)
        self.way, self.listener = way, listener
        self.remove_callback(PrinterCallback)
        if listener:
            self.add_callback(_Tell(listener))

    # Trainer goes through it, and asks for no more
    def get_train_dataloader(self) -> EqualStepsLoader:  # pyrefly: ignore[bad-override]
        """The batches of this rank, with no end; `max_steps` has to say when it is enough."""
        if self.way == "first":
            loader = super().get_train_dataloader()
        else:  # without accelerator.prepare
            loader = self._loader(self.train_dataset, self._train_batch_size)
        ended = self.listener.ended if self.listener else lambda epoch, samples: None
        return EqualStepsLoader(loader, self.args.device, ended)

    @torch.no_grad()
    def evaluate(self, eval_dataset=None, ignore_keys=None, metric_key_prefix="eval") -> dict:
        """The mean loss of a token, in nats, over `eval_dataset`, whose lines the ranks share.

        Returns {"<metric_key_prefix>_loss": loss}; `ignore_keys` is Trainer's, and not used.
        """
        loader = self._loader(eval_dataset or self.eval_dataset, self.args.eval_batch_size)
        sums = torch.zeros(2, dtype=torch.float64, device=self.args.device)
        assert self.model is not None, "Trainer has made one by now"
        self.model.eval()
        for batch in loader:
            batch = self._prepare_inputs(batch)
            labels = batch.pop("labels")
            sums[0] += token_sum(self.model(**batch).logits, labels)
            sums[1] += (labels[:, 1:] != IGNORED).sum()
        if dist.is_initialized():
            dist.all_reduce(sums)
        metrics = {f"{metric_key_prefix}_loss": (sums[0] / sums[1]).item()}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def _loader(self, dataset, batch_size: int) -> DataLoader:
        return DataLoader(
            dataset,
            batch_size,
            collate_fn=self.data_collator,
            num_workers=self.args.dataloader_num_workers,
            multiprocessing_context=self.args.dataloader_multiprocessing_context,
        )


class _Tell(TrainerCallback):
    def __init__(self, listener: Listener):
        self.listener = listener

    def on_step_end(self, args, state, control, **kwargs):
        control.should_log |= state.global_step >= state.max_steps  # the last one, in any case

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.listener.take(state.global_step, logs or {})


def _token_mean(outputs, labels, num_items_in_batch) -> torch.Tensor:
    """`num_items_in_batch`: tokens that have a label, on all ranks, in all parts of the step."""
    return token_sum(outputs.logits, labels) / num_items_in_batch.clamp(min=1)


def quiet(device: torch.device) -> None:
    """Keep what comes with Trainer from talking: bars, and guesses at the device and at forks."""
    logging.disable_progress_bar()
    os.environ.setdefault("DS_ACCELERATOR", device.type)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
