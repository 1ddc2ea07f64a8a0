"""The steps of a run, and what is due after some of them: records, evaluations, checkpoints."""

import math
import time
from dataclasses import dataclass, field

import torch
import torch.distributed as dist

from rankbook.parallel.mesh import train_step
from rankbook.parallel.mesh.sharded_model import ShardedModel
from rankbook.parallel.sync import DiLoCo
from rankbook.programs.report import Log, Progress
from rankbook.programs.train_lm import syncing
from rankbook.programs.train_lm.options import Options
from rankbook.training import (
    evaluate,
    learning_rate,
    padded,
    perplexity,
    seed_step,
    training_batch,
    windows,
)
from rankbook.training.checkpoint import PipelineCheckpoints, capture_replica, capture_stages
from rankbook.training.checkpoint.pipeline import PipelineSaved, Stages


@dataclass
class MeshRun:
    """One run on this rank; `step` is the next one, `best` the lowest validation loss so far.

    sync: where replicas train alone and meet now and then. pending: records that wait for a
    meeting. loss: of the last record, if `has_logged`. latest: the state to go on from;
    best_model: that of the lowest validation loss; if kept.
    """

    options: Options
    part: ShardedModel
    optimizer: torch.optim.Optimizer
    splits: dict[str, torch.Tensor]
    log: Log
    sync: DiLoCo | None = None
    step: int = 0
    loss: float = math.nan
    has_logged: bool = False
    best: float = math.inf
    latest: PipelineCheckpoints | None = None
    best_model: PipelineCheckpoints | None = None
    pending: list[dict] = field(default_factory=list)
    first: bool = field(default_factory=lambda: dist.get_rank() == 0)

    def autocast(self):
        """The type that layers compute in."""
        device = self.part.device.type
        return torch.autocast(device, torch.bfloat16, enabled=self.options.bf16)

    def describe(self) -> str:
        """The mesh, and how a batch goes through it, in words."""
        layout, plan = self.options.layout, self.part.plan
        said = [f"mesh {layout}"]
        if layout.shard > 1:
            said.append(f"{layout.shard} of dp share a copy")
        if plan.stages > 1:
            said.append(f"{plan.stages} stages under {plan.schedule}")
        if plan.microbatches > 1:
            said.append(f"{plan.microbatches} microbatches")
        if self.options.experts:
            several = "s" * (self.options.experts > 1)
            said.append(f"{self.options.experts} expert{several}, {self.options.top_k} a token")
        if self.sync:
            how, every = self.options.sync.split(":")
            name = {"local": "LocalSGD", "diloco": "DiLoCo"}[how]
            said.append(f"replicas meet after {every} step{'s' * (every != '1')} alone ({name})")
            if layout.dp == 1:
                said.append("of which there is one")
        return ", ".join(said)

    @property
    def model(self) -> Stages:
        """What checkpoints take for the model: `part`, or what all agreed on, where `sync`."""
        return syncing.replica(self.part, self.sync) if self.sync else self.part

    def sync_if_due(self) -> bool:
        """After an inner step: whether replicas have just met; always if they do in every step."""
        return self.sync is None or self.sync.step()

    def capture(self) -> dict:
        """The state to go on from, of which this rank has a part; on all ranks."""
        if self.sync is None:
            return capture_stages(self.part, self.optimizer, {"best": self.best})
        position = {"best": self.best, "sync": syncing.counts(self.sync)}
        return capture_replica(syncing.replica(self.part, self.sync), self.optimizer, position)

    def resume(self, saved: PipelineSaved) -> None:
        """Go on from what `capture` gave; on all ranks."""
        position = saved.load_into(self.model, self.optimizer)
        self.step, self.best = saved.step, position["best"]
        if self.sync:
            syncing.set_counts(self.sync, position["sync"])

    def global_weights(self):
        """Context in which the parameters are the global ones of `sync`."""
        return syncing.global_weights(self.part, self.sync)

    def due(self, every: int | None) -> bool:
        """Whether what is done `every` so many steps, and at the end, is to be done now."""
        options = self.options
        return every is not None and (self.step % every == 0 or self.step == options.steps)


def train(run: MeshRun) -> None:
    """All steps that are left, with what is due after some of them."""
    options, rank = run.options, dist.get_rank()
    bar = Progress(run.step, options.steps, silent=not run.first)
    left = f"from step {run.step} to {options.steps}"
    if run.step >= options.steps:
        left = f"nothing left to train: {options.steps} steps in all, and {run.step} are done"
    bar.say(f"{run.describe()}, {left}")
    losses, start = [], time.perf_counter()
    while run.step < options.steps:
        for group in run.optimizer.param_groups:
            group["lr"] = learning_rate(run.step, options.lr, options.warm_up)
        seed_step(options.seed, run.step, rank)
        batch = training_batch(run.splits["train"], run.step, options.window)
        with run.autocast():
            loss, norm = train_step(run.part, run.optimizer, *batch, options.max_norm)
        losses.append(loss)
        met = run.sync_if_due()
        run.step += 1
        if run.due(options.log_every):
            record = measure(losses, norm, start, batch[0].numel()) | memory(run.part.device)
            record |= expert_load(run.part)
            rate = run.optimizer.param_groups[0]["lr"]
            run.pending.append({"step": run.step, "lr": rate, **record, **sent(run)})
            losses, start = [], time.perf_counter()
        saving = run.latest is not None and run.due(options.save_every)
        if met or saving or run.due(options.evaluate_every) or run.step == options.steps:
            flush_log(run, bar)
        if run.due(options.evaluate_every):
            validate(run, bar)
            start = time.perf_counter()
        if run.latest and saving:
            run.latest.save(run.step, run.capture())
            start = time.perf_counter()


def sent(run: MeshRun) -> dict:
    """The bytes of parameters that this rank has sent, where replicas train alone."""
    return {"sent": run.sync.sent} if run.sync else {}


def flush_log(run: MeshRun, bar: Progress) -> None:
    """Write the records that wait, with means over the replicas; on all ranks."""
    records, run.pending = run.pending, []
    if run.sync:
        names = "loss", "norm"
        own = [[record[name] for name in names] for record in records]
        for record, means in zip(records, syncing.mean_over_replicas(run.part, own), strict=True):
            record |= zip(names, means, strict=True)
    for record in records:
        run.loss, run.has_logged = record["loss"], True
        run.log.write(**record)
        bar.update(record["step"], f"loss {run.loss:.3f}")


def measure(losses: list[torch.Tensor], norm: torch.Tensor, start: float, tokens: int) -> dict:
    """The mean of the losses since the last record, and the pace. This waits for a GPU."""
    loss = torch.stack(losses).mean().item()
    seconds = time.perf_counter() - start
    return {"loss": loss, "norm": norm.item(), "tokens per second": len(losses) * tokens / seconds}


def memory(device: torch.device) -> dict:
    """The most that tensors of this rank, the first, have held on its GPU so far."""
    if device.type != "cuda":
        return {}
    return {"peak MiB": round(torch.cuda.max_memory_allocated(device) / 2**20)}


def expert_load(part: ShardedModel) -> dict:
    """Of a model with experts, how equally busy they were in the last step; see `rebalance`."""
    names = ["balance", "busiest"] + ["dropped"] * (part.config.capacity is not None)
    return {name: part.expert_load[name].item() for name in names if part.expert_load}


def validate(run: MeshRun, bar: Progress) -> None:
    """Measure on the validation split; keep a copy of the model, on disk, if it is the best."""
    loss = assess(run, "valid")
    better = loss < run.best
    run.best = min(loss, run.best)
    if better and run.best_model:
        run.best_model.save(run.step, capture_stages(run.model, position={"loss": loss}))
    run.log.write(step=run.step, valid_loss=loss, valid_perplexity=perplexity(loss))
    bar.say(f"step {run.step}: validation loss {loss:.3f}, perplexity {perplexity(loss):.1f}")


def assess(run: MeshRun, split: str) -> float:
    """The mean loss per token over a split, or over its first batches if the options say so."""
    options = run.options
    of_split = windows(run.splits[split], options.window, options.evaluate_on)
    with run.autocast(), run.global_weights():
        # the last window is shorter, and tensor parallelism cuts equal parts of windows
        return evaluate(run.part, padded(of_split, options.window))


def finish(run: MeshRun) -> dict:
    """The test loss of the best model; without checkpoints, of the last.

    Without evaluations, the last training loss is all there is.
    """
    found = {"step": run.step, "loss": run.loss}
    left = run.step % run.sync.every if run.sync else 0
    if left and run.first:
        print(f"steps after the last meeting: {left}; what all replicas agreed on lacks them")
    if run.options.evaluate_every is None:
        if run.first and run.has_logged:
            print(f"step {run.step}: loss {run.loss:.3f}", flush=True)
        return found
    which = "last"
    if run.best_model and (saved := run.best_model.newest()):
        saved.load_into(run.model)
        which = "best"
    loss = assess(run, "test")
    run.log.write(test_loss=loss, test_perplexity=perplexity(loss), model=which)
    if run.first:
        print(f"test loss of the {which} model {loss:.3f}, perplexity {perplexity(loss):.1f}")
    return {**found, "best_valid_loss": run.best, "test_loss": loss}
