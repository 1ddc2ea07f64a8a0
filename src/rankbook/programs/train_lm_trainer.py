"""A causal language model, trained by transformers' Trainer on the lines of a text.

python -m rankbook.programs.train_lm_trainer --train-file FILE
torchrun --standalone --nproc-per-node 2 -m rankbook.programs.train_lm_trainer --train-file FILE
"""

import argparse
import itertools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from rankbook.data.lines import ShardedLines
from rankbook.parallel.placement import init
from rankbook.programs.report import Log, Progress, end, fail
from rankbook.programs.train_lm_options import read

if TYPE_CHECKING:
    from rankbook.training.trainer import LinesTrainer

TINY = {"hidden_size": 64, "intermediate_size": 176, "num_hidden_layers": 2}
TINY |= {"num_attention_heads": 4, "num_key_value_heads": 4, "tie_word_embeddings": True}


@dataclass
class Told:
    """What Trainer tells in the course of a run, on this rank; rank 0 also writes it down."""

    log: Log
    bar: Progress
    losses: list[float] = field(default_factory=list)
    valid_losses: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)  # of all ranks, by epoch

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


def main(arguments: list[str] | None = None) -> dict:
    """Train as the options say, on every rank; return the losses, and the samples by epoch."""
    try:
        options, trainer, told = prepare(sys.argv[1:] if arguments is None else arguments)
    except (ValueError, OSError, ImportError) as error:
        fail(error, "train_lm_trainer")
    trainer.train()
    if options.valid_file:
        trainer.evaluate()
    if options.output and trainer.is_world_process_zero():
        trainer.model.save_pretrained(options.output)
        trainer.processing_class.save_pretrained(options.output)
    if dist.is_initialized():
        dist.destroy_process_group()
    return {"losses": told.losses, "valid_losses": told.valid_losses, "samples": told.samples}


def prepare(arguments: list[str]) -> tuple[argparse.Namespace, "LinesTrainer", Told]:
    """Check everything, join the group if torchrun described one, make the Trainer."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    options = read(arguments, world_size)
    if "WORLD_SIZE" in os.environ:
        device = init(options.backend, options.timeout)
    else:
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # Trainer would take all of them
        gpu = torch.cuda.is_available() and options.backend != "gloo"
        device = torch.device("cuda" if gpu else "cpu")
    sizes = together(lambda: check_files(options, world_size))
    check_same(gather(sizes))
    tokenizer, model = together(lambda: load(options))
    first = os.environ.get("RANK", "0") == "0"
    told = Told(Log(options.log_file if first else None), Progress(0, options.steps, not first))
    told.log.write(start=describe(options, sizes, model, device, world_size))
    told.bar.say(f"{world_size} x {options.share} samples in a step, {options.steps} steps")
    return options, make_trainer(options, tokenizer, model, device, told), told


def together(check: Callable[[], Any]) -> Any:
    """`check()` on every rank; where it raises on some, all of them raise, the same sentence.

    A rank that ended alone, because its node lacks a file, would leave the others waiting.
    """
    result, problem = None, None
    try:
        result = check()
    except (ValueError, OSError, ImportError) as error:
        problem = str(error).strip().splitlines()[0]
    problems = gather(problem)
    ranks = [rank for rank, problem in enumerate(problems) if problem]
    if ranks:
        where = "" if len(ranks) == len(problems) else f" (rank {', '.join(map(str, ranks))})"
        raise ValueError(problems[ranks[0]] + where)
    return result


def gather(value: Any) -> list:
    """The `value` of every rank, on every rank."""
    if not dist.is_initialized():
        return [value]
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values


def check_files(options: argparse.Namespace, world_size: int) -> dict[str, int]:
    """The bytes of each file. Raises for one that cannot be read, or has too few samples."""
    sizes = {}
    for path in filter(None, (options.train_file, options.valid_file)):
        lines = ShardedLines(path, skip_blank=True, rank=0, world_size=1)
        sizes[str(path)] = lines.size
        need = world_size if path == options.train_file else 1
        found = sum(1 for _ in itertools.islice(lines, need))
        if found < need:
            raise ValueError(
                f"{path} has {found} samples (lines that are not blank), and {need} ranks need "
                "one each; use fewer ranks, or a longer text"
            )
    return sizes


def check_same(sizes: list[dict[str, int]]) -> None:
    """Raise ValueError on every rank if a file has not the same bytes on all; `sizes`: by rank."""
    first = sizes[0]
    for rank, mine in enumerate(sizes):
        for path, size in mine.items():
            if size != first[path]:
                raise ValueError(
                    f"{path} has {first[path]} bytes on rank 0 and {size} on rank {rank}; "
                    "copy the same file to every node"
                )


def load(options: argparse.Namespace) -> tuple[Any, Any]:
    """The tokenizer and the model: those of ``--model``, or bytes and a tiny, new Llama."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if options.model is None:
        return tiny(options.seed)
    try:
        tokenizer = AutoTokenizer.from_pretrained(options.model)
        model = AutoModelForCausalLM.from_pretrained(options.model)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"--model {options.model} is no folder with a causal language model and its tokenizer, "
            f"and the hub gave none: {str(error).strip().splitlines()[0]}"
        ) from error
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    longest = getattr(model.config, "max_position_embeddings", options.length)
    if options.length > longest:
        raise ValueError(f"--length {options.length}: {options.model} takes {longest} at most")
    return tokenizer, model


def tiny(seed: int) -> tuple[Any, Any]:
    """A tokenizer whose tokens are bytes, which needs no file, and a Llama of 150,000 parameters.

    The same parameters on every rank: DDP would make them so, from those of rank 0.
    """
    from transformers import ByT5Tokenizer, LlamaConfig, LlamaForCausalLM

    tokenizer = ByT5Tokenizer(extra_ids=0)
    ids = {"vocab_size": len(tokenizer), "bos_token_id": None}
    ids |= {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    torch.manual_seed(seed)
    return tokenizer, LlamaForCausalLM(LlamaConfig(**ids, **TINY))


def make_trainer(
    options: argparse.Namespace, tokenizer, model, device: torch.device, told: Told
) -> "LinesTrainer":
    """Trainer as the options say, with what it reads and to whom it tells it."""
    from rankbook.training import trainer

    trainer.quiet(device)
    alone = {"rank": 0, "world_size": 1} if options.read == "first" else {}
    lines = ShardedLines(
        options.train_file, shuffle=True, seed=options.seed, skip_blank=True, **alone
    )
    valid = ShardedLines(options.valid_file, skip_blank=True) if options.valid_file else None
    return trainer.LinesTrainer(
        model,
        training_arguments(options, device),
        trainer.Lines(tokenizer, options.length, fixed=options.read == "first"),
        lines,
        valid,
        processing_class=tokenizer,
        way=options.read,
        told=told,
    )


def training_arguments(options: argparse.Namespace, device: torch.device):
    """The options under the names that transformers 5 gives them."""
    from transformers import TrainingArguments

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
        save_strategy="no",
        disable_tqdm=True,
        report_to="none",
        use_cpu=device.type == "cpu",
    )


def describe(
    options: argparse.Namespace, sizes: dict, model, device: torch.device, world_size: int
) -> dict:
    """What is run, where, for the log."""
    return {
        "options": vars(options),
        "world size": world_size,
        "nodes": world_size // int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        "bytes": sizes,
        "parameters": sum(p.numel() for p in model.parameters()),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    main()
    end()
