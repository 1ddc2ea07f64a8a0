"""`rankbook plan`: its options, and what it prints."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import NoReturn

OURS = ("run", "json", "program")  # of the options, what is no part of the question
EXAMPLES = """examples:
  rankbook plan --params 7.5e9
  rankbook plan --config config.json --gpus 256 --gpu h100 --batch-tokens 8M --sequence 8192
  rankbook plan --module my_models:large --gpus 512 --fake-ranks 512
  rankbook plan --params 70B --json

a card that is not known is described:
  --gpu name=x,memory=48e9,flops=360e12,bandwidth=864e9,inside=32e9,between=12.5e9
  (bytes, FLOP/s of bf16, B/s of its memory, of its link in the node, of its link to others)"""


def add_command(commands: argparse._SubParsersAction) -> Callable[[argparse.Namespace], int]:
    """Add the command to an argparse parser's `commands`; return what runs it, for a status."""
    parser = commands.add_parser(
        "plan",
        help="from a model and GPUs to a layout: what fits, how fast, why the others lose",
        description="From a model and GPUs to a layout: what fits, how long a step takes, why the\n"
        "others lose. Nothing is started. Status: 0, 1 where no layout fits, 2 for bad input.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    model = parser.add_argument_group("the model, by one of")
    add = model.add_argument
    add("--params", metavar="N", help="how many parameters: 7.5e9, 7.5B; the shape is assumed")
    add("--config", metavar="FILE", help="a Hugging Face config.json, or its folder")
    add("--module", metavar="PKG:FN", help="a function that returns an nn.Module")
    add("--sequence", metavar="N", help="tokens of a sequence (4096, or the most it can)")
    add = parser.add_argument_group("the machines and the batch").add_argument
    add("--gpus", default="64", metavar="N", help="how many (64)")
    add("--gpu", default="h200", metavar="NAME", help="which (h200); or name=x,memory=48e9,...")
    add("--gpus-per-node", metavar="N", help="(as the card usually comes)")
    add("--batch-tokens", default="4M", metavar="N", help="tokens of a step; 4M is 4 x 2^20 (4M)")
    fake = parser.add_argument_group("a module's step, tracked on ranks that do not exist")
    add = fake.add_argument
    add("--fake-ranks", metavar="N", help="run it with FSDP2 on N; about a minute (512)")
    add("--input", metavar="SIZES", help="8x3x224x224: its input, where it reads no tokens")
    add("--time-limit", default="300", metavar="SECONDS", help="for them (300)")
    add = parser.add_argument
    programs = ("torchtitan", "megatron", "deepspeed", "fsdp2", "all")
    add("--for", dest="program", choices=programs, help="its settings in full, not in brief")
    add("--json", action="store_true", help="one JSON document instead of text")
    parser.set_defaults(run=run)
    # one sentence, without the usage before it, as of all that is wrong with a plan
    setattr(parser, "error", partial(_refuse, parser))  # noqa: B010
    return run


def _refuse(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    parser.exit(2, f"rankbook plan: {message}; rankbook plan --help shows all options\n")


def run(options: argparse.Namespace) -> int:
    """Print the plan; return 0, 1 where no layout fits, 2 for bad input."""
    # here: the other commands, and --help, do not wait for it
    from rankbook.predict.plan.answer import Question, answer
    from rankbook.predict.plan.document import as_json
    from rankbook.predict.plan.text import as_text

    given = {name: value for name, value in vars(options).items() if name not in OURS}
    try:
        found = answer(Question(**given))
    except ValueError as error:
        print(f"rankbook plan: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130  # as a shell has it
    print(as_json(found) if options.json else as_text(found, options.program or ""), flush=True)
    return int(found.plans is not None and not found.plans.best)
