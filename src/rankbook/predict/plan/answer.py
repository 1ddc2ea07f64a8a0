"""What `rankbook plan` was asked, as text, and its answer, before anybody prints it."""

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from rankbook.predict.memory.states import model_states
from rankbook.predict.plan.fake_ranks import LIMIT, Tracked, track_module
from rankbook.predict.plan.machines import Machines
from rankbook.predict.plan.model import SEQUENCE, Model
from rankbook.predict.plan.own_card import read_card
from rankbook.predict.plan.quantities import amount, count, parameters, short, tokens
from rankbook.predict.plan.search import Plans, best_plans
from rankbook.predict.plan.shapes import shape_from_params


@dataclass(frozen=True)
class Question:
    """The options of the command as they were written; None for what was not given."""

    params: str | None = None
    config: str | None = None
    module: str | None = None
    gpus: str = "64"
    gpu: str = "h200"
    gpus_per_node: str | None = None
    batch_tokens: str = "4M"
    sequence: str | None = None
    fake_ranks: str | None = None
    input: str | None = None
    time_limit: str = f"{LIMIT:.0f}"


@dataclass(frozen=True)
class Answer:
    """The model, the machines, and what was found; `tracked` if fake ranks were asked for.

    plans: None for a module that reads no tokens (--input), of which only states are known.
    """

    model: Model
    machines: Machines
    batch_tokens: int
    plans: Plans | None
    tracked: Tracked | None = None

    @property
    def states(self) -> dict[str, float]:
        """Bytes of a rank's parameters, gradients and Adam, by ZeRO stage, over all GPUs."""
        ranks = self.machines.gpus
        return {str(z): model_states(self.model.parameters, z, ranks) for z in range(4)}


def answer(question: Question) -> Answer:
    """Read the question, find the layouts. Raises ValueError, in one sentence, for bad input."""
    given = [name for name in ("params", "config", "module") if getattr(question, name) is not None]
    if len(given) != 1:
        what = f"{' and '.join(f'--{name}' for name in given)} are" if given else "nothing is"
        raise ValueError(
            f"{what} given; name the model by one of --params 7.5e9, --config config.json, "
            "--module package.file:function"
        )
    _check_module(question)
    per_node = question.gpus_per_node
    machines = Machines(
        read_card(question.gpu),
        count(question.gpus, "GPUs (--gpus)"),
        count(per_node, "GPUs of a node (--gpus-per-node)") if per_node else 0,
    )
    batch = tokens(question.batch_tokens)
    if question.input is not None:
        return _of_input(question, machines, batch)
    ranks, limit = _ranks_and_limit(question)  # before a module takes its time
    model = _model(question)
    plans = best_plans(model.shape, machines, batch)
    tracked = None
    if ranks:
        tracked = track_module(str(question.module), ranks, model, limit=limit)
    return Answer(model, machines, batch, plans, tracked)


def _ranks_and_limit(question: Question) -> tuple[int, float]:
    """How many fake ranks, 0 for none, and for how many seconds at most."""
    limit = amount(question.time_limit, "--time-limit", "300")
    if question.fake_ranks is None:
        return 0, limit
    return count(question.fake_ranks, "ranks (--fake-ranks)"), limit


def _check_module(question: Question) -> None:
    for name in ("fake_ranks", "input"):
        if getattr(question, name) is not None and question.module is None:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} runs a module; name it with --module")
    if question.input is not None and question.fake_ranks is None:
        raise ValueError("--input is for --fake-ranks; say how many, as --fake-ranks 512")


def _model(question: Question) -> Model:
    sequence = tokens(question.sequence, "8192 or 8k") if question.sequence is not None else 0
    if question.config is not None:
        from rankbook.predict.plan.configs import model_from_config

        return model_from_config(Path(question.config), sequence)
    if question.module is not None:
        from rankbook.predict.plan.modules import model_from_module  # loads torch

        with redirect_stdout(sys.stderr):  # what the module prints is no part of the plan
            return model_from_module(question.module, sequence)
    wanted = parameters(str(question.params))
    shape = shape_from_params(wanted, sequence or SEQUENCE)
    assumed = [f"a Llama-like shape, of {short(shape.parameters)} parameters (--config has yours)"]
    if not sequence:
        assumed.append(f"sequences of {SEQUENCE} tokens (--sequence)")
    return Model(f"{short(wanted)} parameters", shape, wanted, tuple(assumed))


def _of_input(question: Question, machines: Machines, batch: int) -> Answer:
    """Of a module that reads something else than tokens: states by formula, the peak tracked."""
    from rankbook.predict.plan.modules import module_without_shape

    sizes = tuple(count(n, "sizes (--input 8x3x224x224)") for n in str(question.input).split("x"))
    with redirect_stdout(sys.stderr):
        model = module_without_shape(str(question.module))
    ranks, limit = _ranks_and_limit(question)
    tracked = track_module(str(question.module), ranks, None, sizes=sizes, limit=limit)
    return Answer(model, machines, batch, None, tracked)
