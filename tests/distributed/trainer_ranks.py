"""What two ranks get from transformers' Trainer; run by test_trainer.py."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.utils.data import IterableDataset

from rankbook.data import Reader, ShardedLines, gather_audit

SETTINGS = [{"dispatch_batches": d, "split_batches": s} for d in (True, False) for s in (0, 1)]
STEPS, RATE = 7, 3e-3


class Numbers(IterableDataset):
    """0 to n - 1, shared out over the readers that `kind` knows of."""

    def __init__(self, kind: str, n: int):
        self.kind, self.n = kind, n

    def __iter__(self) -> Iterator[dict]:
        alone = {"rank": 0, "world_size": 1} if self.kind != "by hand" else {}
        me = Reader() if self.kind == "whole" else Reader.here(**alone)
        if self.kind == "by files":  # three files of equal size; a worker reads whole files
            each = self.n // 3
            files = range(me.index, 3, me.count)
            numbers = itertools.chain(*(range(f * each, (f + 1) * each) for f in files))
        else:
            numbers = range(me.index, self.n, me.count)
        return ({"input_ids": torch.tensor([number])} for number in numbers)


def arguments(**more):
    from transformers import TrainingArguments

    options = {"per_device_train_batch_size": 4, "max_steps": STEPS, "learning_rate": RATE}
    options |= {"save_strategy": "no", "report_to": "none", "disable_tqdm": True, "use_cpu": True}
    options |= {"ddp_find_unused_parameters": False} | more
    if options.get("dataloader_num_workers"):  # the forkserver of run_ranks starts them slowly
        options["dataloader_multiprocessing_context"] = "fork"
    return TrainingArguments(".", **options)


def tiny():
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    return LlamaForCausalLM(LlamaConfig(vocab_size=259, num_attention_heads=2, **sizes))


def counts() -> dict:
    """Samples never, once, twice and more often seen: by set, and by setting."""
    from datasets import Dataset
    from datasets.distributed import split_dataset_by_node
    from transformers import Trainer

    model = tiny()

    def count(dataset, n: int, workers: int = 0, **settings) -> list[int]:
        options = arguments(dataloader_num_workers=workers, accelerator_config=settings)
        loader = Trainer(model, options, train_dataset=dataset).get_train_dataloader()
        mine = [number for batch in loader for number in batch["input_ids"].flatten().tolist()]
        found = gather_audit(mine, n)
        return [found.never, found.once, found.twice, found.more]

    def shards(cut: bool):
        rows = Dataset.from_dict({"input_ids": [[n] for n in range(21)]})
        rows = rows.to_iterable_dataset(num_shards=4).with_format("torch")
        return split_dataset_by_node(rows, dist.get_rank(), 2) if cut else rows

    table = {
        f"{kind}, {workers}": [count(Numbers(kind, 20), 20, workers, **s) for s in SETTINGS]
        for kind in ("by hand", "by workers", "whole")
        for workers in (0, 2)
    }
    numbers = [{"input_ids": torch.tensor([n])} for n in range(21)]
    return {
        "settings": table,
        "default": count(Numbers("by hand", 20), 20, 2),
        "files": [count(Numbers("by files", 21), 21, workers) for workers in (1, 2)],
        "list": [count(numbers, 21, even_batches=even) for even in (True, False)],
        "even": [count(Numbers("whole", 21), 21, even_batches=even) for even in (True, False)],
        "shards": [count(shards(cut), 21, 2, dispatch_batches=False) for cut in (False, True)],
    }


class Told:
    """Notes the epochs, and the losses."""

    def __init__(self):
        self.samples, self.losses = [], []

    def take(self, step: int, logs: dict) -> None:
        if "loss" in logs:
            self.losses.append(logs["loss"])

    def ended(self, epoch: int, samples: int) -> None:
        self.samples.append(samples)


def numbers_of(lines: list[str]) -> dict[str, torch.Tensor]:
    """A collator that keeps the line's number, in the place of ids."""
    ids = torch.tensor([[int(line), 0] for line in lines])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def first_epochs(path: str, workers: int, way: str) -> tuple[list[int], list[int]]:
    """The numbers that this rank gets in each of two epochs, and how many all ranks got."""
    from rankbook.training.trainer import LinesTrainer

    alone = {"rank": 0, "world_size": 1} if way == "first" else {}
    lines, told = ShardedLines(path, shuffle=True, **alone), Told()
    options = arguments(dataloader_num_workers=workers, per_device_train_batch_size=2)
    trainer = LinesTrainer(tiny(), options, numbers_of, lines, way=way, listener=told)
    mine = []
    for batch in trainer.get_train_dataloader():
        if len(told.samples) == 2:
            return mine, told.samples
        real = batch["labels"][:, 0] != -100
        mine += batch["input_ids"][real, 0].tolist()
    raise AssertionError("the batches ended")


def every_line(folder: str, sizes: list[int]) -> list:
    """For each size, way and number of workers: times each line came in two epochs, and totals."""
    found = []
    for n, (way, workers) in itertools.product(
        sizes, [("shares", 0), ("shares", 2), ("first", 0), ("first", 1)]
    ):
        path = Path(folder, f"{n}-numbers.txt")
        if dist.get_rank() == 0:
            path.write_text("\n".join(map(str, range(n))))
        dist.barrier()
        mine, totals = first_epochs(str(path), workers, way)
        seen = gather_audit(mine, n)
        found.append([n, way, workers, sorted(set(seen.times.values())), totals])
    return found


def losses(path: str, way: str, workers: int = 0, accumulate: int = 1) -> list[float]:
    """Of each step of a LinesTrainer, with a batch of 12 on each rank."""
    from rankbook.training.trainer import LinesTrainer

    alone = {"rank": 0, "world_size": 1} if way == "first" else {}
    lines, told = ShardedLines(path, shuffle=True, **alone), Told()
    options = arguments(
        per_device_train_batch_size=12 // accumulate,
        gradient_accumulation_steps=accumulate,
        dataloader_num_workers=workers,
        logging_steps=1,
    )
    LinesTrainer(tiny(), options, collate(way), lines, way=way, listener=told).train()
    return told.losses


def of_trainer_itself(path: str) -> list[float]:
    """As `losses`, by a Trainer in which nothing is replaced: rank 0 reads."""
    from transformers import Trainer

    options = arguments(per_device_train_batch_size=12, logging_steps=1)
    lines = ShardedLines(path, shuffle=True, rank=0, world_size=1)
    trainer = Trainer(tiny(), options, collate("first"), lines)
    trainer.train()
    return [log["loss"] for log in trainer.state.log_history if "loss" in log]


def collate(way: str) -> Callable:
    from transformers import ByT5Tokenizer

    from rankbook.training.trainer import LineCollator

    return LineCollator(ByT5Tokenizer(extra_ids=0), length=24, fixed=way == "first")


def by_hand(path: str, way: str) -> list[float]:
    """The same in one process, on the samples of both ranks together."""
    batch_of, model = collate(way), tiny()
    adam = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0)
    falls = torch.optim.lr_scheduler.LambdaLR(adam, lambda step: 1 - step / STEPS)
    found = []
    for samples in itertools.islice(steps(path, way), STEPS):
        batch = batch_of(samples)
        labels = batch.pop("labels")
        logits = model(**batch).logits
        loss = cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adam.step()
        falls.step()
        adam.zero_grad()
        found.append(loss.item())
    return found


def steps(path: str, way: str) -> Iterator[list[str]]:
    """The samples of each step, of both ranks."""
    lines = ShardedLines(path, shuffle=True)
    for epoch in itertools.count():
        lines.set_epoch(epoch)
        if way == "first":  # batches of 12 in the order of one reader, two of them in a step
            shares = [list(lines.iterate(Reader()))]
            size = 24
        else:
            shares = [list(lines.iterate(Reader(rank, 2))) for rank in range(2)]
            size = 12
        for start in range(0, max(map(len, shares)), size):
            yield list(itertools.chain(*(share[start : start + size] for share in shares)))


def all_of_it(folder: str, text: str) -> dict:
    """Everything, in one start of the ranks: loading transformers takes seconds."""
    os.environ |= {"DS_ACCELERATOR": "cpu", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"RANK": str(dist.get_rank()), "LOCAL_RANK": str(dist.get_rank())}
    found = {"counts": counts(), "lines": every_line(folder, [3, 16, 21])}
    runs = {
        "shares": ("shares", 0, 1),
        "shares, accumulated": ("shares", 0, 2),
        "first": ("first", 0, 1),
        "first, one worker": ("first", 1, 1),
    }
    found["losses"] = {name: losses(text, *run) for name, run in runs.items()}
    found["losses"]["Trainer itself"] = of_trainer_itself(text)
    found["by hand"] = {way: by_hand(text, way) for way in ("shares", "first")}
    lopsided = Path(folder, "lopsided.txt")
    if dist.get_rank() == 0:
        lopsided.write_text("a line\nanother one\n" + "long " * 50)
    dist.barrier()
    found["lopsided"] = [losses(str(lopsided), "shares"), by_hand(str(lopsided), "shares")]
    return found


def dispatched(sizes: list[int]) -> list[list[int]]:
    """What this rank gets of sets that were shared out by hand, with Trainer's defaults."""
    from transformers import Trainer

    rank, world_size = dist.get_rank(), dist.get_world_size()
    os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": str(rank), "LOCAL_RANK": str(rank)}
    os.environ |= {"WORLD_SIZE": str(world_size), "LOCAL_WORLD_SIZE": str(world_size)}
    found = []
    for n in sizes:
        trainer = Trainer(tiny(), arguments(), train_dataset=Numbers("by hand", n))
        batches = list(trainer.get_train_dataloader())
        found.append(
            [number for batch in batches for number in batch["input_ids"].flatten().tolist()]
        )
    return found
