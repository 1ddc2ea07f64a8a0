"""Bytes of one rank at the fullest moment of a step: by formula, from sizes alone.

Left out: what the driver and the communication library take (about a GiB on a GPU), what the
allocator cannot use because it lies in pieces, what a kernel takes and gives back within itself
(attention's workspace), token ids, biases' and norms' gradients on their way, and the forward pass
where it is fuller than the backward pass (never here: backward has gradients besides).
"""

from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.moments import MOMENTS, Moment, RankMoments
from rankbook.predict.memory.setup import Setup
from rankbook.predict.memory.terms import Term, Terms

PARTS = ("parameters", "gradients", "optimizer", *Moment._fields[1:])


def memory_of(shape: ModelShape, setup: Setup, stage: int = 0, step_moment: str = "peak") -> Terms:
    """Bytes of a rank of `stage`, by part, each with its formula.

    step_moment: "loss", when the loss's backward pass begins (nothing but on the last stage);
    "backward", at its fullest; "update", when the optimizer works; "peak", the fullest of them;
    `moment` of what is returned says which. Letters: P parameters that a rank computes with, n
    ranks that share them, L layers of the stage, m microbatches under way, b tokens of one, h
    hidden, q and k columns of queries and keys, f of the perceptron, a heads, V vocabulary, t
    tensor parallel ranks. Raises ValueError for what cannot be.
    """
    if step_moment not in (*MOMENTS, "peak"):
        known = ", ".join((*MOMENTS, "peak"))
        raise ValueError(f"step_moment {step_moment!r} is unknown; use one of {known}")
    rank = RankMoments(shape, setup, stage)
    names = MOMENTS if step_moment == "peak" else (step_moment,)
    moments = [(sum(m), name, m) for name in names for m in getattr(rank, name)()]
    if not moments:  # a stage without a loss
        return Terms({part: Term(0.0, "") for part in PARTS})
    _, name, moment = max(moments, key=lambda each: each[0])
    return _terms(rank, moment, name)


def fullest(shape: ModelShape, setup: Setup) -> tuple[int, Terms]:
    """The stage whose ranks are fullest, and what they hold."""
    stages = [(stage, memory_of(shape, setup, stage)) for stage in range(setup.pp)]
    return max(stages, key=lambda found: found[1].total)


def _terms(rank: RankMoments, moment: Moment, name: str) -> Terms:
    setup, width, c = rank.setup, rank.width, rank.width.compute

    def cut(zero: int) -> str:
        return "/n" if setup.zero >= zero and rank.n > 1 else ""

    layers = "L" if setup.pp > 1 or not setup.reshard else "2"
    formulas = {
        "parameters": f"{width.parameter} P{cut(3)}",
        "gradients": _gradients(rank, cut(2)),
        "optimizer": f"{width.state} P{cut(1)}" if rank.state else "on the host",
        "gathered": f"{c} (ends + {layers} layers)",
        "buffers": "gradients on their way, and what stages exchange",
        "activations": f"m L b ({rank.layer.formula}), and the ends",
        "logits": f"b V/t ({c} + 4 x {2 if setup.tp > 1 else 3}) at its loss",
        "workspace": rank.layer.work_formula if name == "backward" else "of the largest tensor",
    }
    stay = {
        "parameters": rank.parameters,
        "gradients": moment.gradients,
        "optimizer": rank.state,
    }
    values = stay | moment._asdict()
    found = Terms({part: Term(values[part], formulas[part]) for part in PARTS})
    found.moment = name
    return found


def _gradients(rank: RankMoments, cut: str) -> str:
    """Its formula: torch's pipelining keeps FSDP2's gradients whole."""
    each = rank.width.gradient
    if rank.fsdp and rank.setup.pp > 1:
        return f"{each} P, whole until the last microbatch"
    more = ", and a new one being added" if rank.setup.microbatches > 1 else ""
    return f"{each} P{cut}, as far as they are made{more}"
