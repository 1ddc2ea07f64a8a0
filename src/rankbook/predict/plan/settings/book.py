"""The command that starts the book's own program, `rankbook.programs.train_lm`, on a layout."""

from rankbook.predict.plan.search import Plan
from rankbook.predict.plan.settings.said import Settings, command, schedule

LAYERS, HEADS = 8, 16  # of the program's preset; a test looks at them
TEXT = 2_049_990  # tokens of WikiText-2 that it trains on
MOST = 100_000  # rows into which its shortest text, for validation, can be cut


def of_book(plan: Plan) -> Settings:
    """The launch line: the layout, the batch and the window are the plan's, the model is not."""
    setup = plan.setup
    options = [
        f"--preset original --mesh {setup.layout}",
        f"--batch {_rows(plan)}",
        f"--window {window(plan)}",
        f"--{'microbatches' if setup.pp > 1 else 'grad-accum'} {setup.microbatches}",
        "--bf16",
    ]
    if setup.zero == 3 and setup.dp > 1:
        options.insert(1, f"--shard {'fsdp' if setup.sharing == setup.dp else setup.sharing}")
    if setup.pp > 1:
        options.insert(-1, f"--schedule {schedule(plan).name}")
    text = command(plan.machines, ["-m rankbook.programs.train_lm", *options])
    return Settings("the book's train_lm", "command", text, tuple(_unsaid(plan)), text)


def window(plan: Plan) -> int:
    """Tokens of a row: as planned, or as many as the program's text has for so many rows."""
    longest = max(1, TEXT // _rows(plan) - 1)  # each row predicts one token more
    if plan.shape.sequence <= longest:
        return plan.shape.sequence
    short, tp = 1 << (longest.bit_length() - 1), plan.setup.tp
    return max(tp, short - short % tp)  # tp cuts it evenly


def _rows(plan: Plan) -> int:
    return plan.setup.dp * plan.setup.microbatches * plan.setup.sequences


def _refused(plan: Plan) -> list[str]:
    setup, found = plan.setup, []
    if setup.pp > LAYERS:
        found.append(f"its models have {LAYERS} layers, too few for {setup.pp} stages")
    if HEADS % setup.tp:
        found.append(f"its models have {HEADS} heads, which tp={setup.tp} does not divide")
    if _rows(plan) > MOST:
        found.append(f"its text is too short for a batch of {_rows(plan):,} sequences")
    return found


def _unsaid(plan: Plan) -> list[str]:
    setup = plan.setup
    said = [f"it refuses this line: {why}" for why in _refused(plan)]
    said.append("its models are the book's presets, not yours: it tries the layout")
    if not said[1:] and window(plan) < plan.shape.sequence:
        said.append(
            f"its text, WikiText-2, is too short for {_rows(plan):,} sequences of "
            f"{plan.shape.sequence:,} tokens: the window is {window(plan):,}"
        )
    if setup.zero in (1, 2) and setup.dp > 1:
        said.append(f"no ZeRO {setup.zero}: each replica keeps all of the optimizer's state")
    if setup.checkpointing != "none":
        said.append("no activation checkpointing: all activations are kept")
    if setup.precision != "fsdp-bf16":
        said.append("--bf16 is autocast: parameters and gradients stay in 32 bits")
    else:
        said.append(
            "--bf16 is autocast: FSDP2 gathers 32 bits, and copies in 16 bits stay until backward, "
            f"more than the {plan.memory.total / 1e9:.3g} GB planned"
        )
    return said
