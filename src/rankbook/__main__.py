"""The commands of the package: ``rankbook doctor``, also as ``python -m rankbook doctor``.

Each is made where it belongs: `rankbook.autopsy`, `rankbook.symptoms`, `rankbook.predict.plan`, and
the doctor here.
"""

import argparse
import contextlib
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rankbook import __version__
from rankbook.autopsy import command as autopsy
from rankbook.doctor import Options, as_json, as_text, examine
from rankbook.predict.plan import command as plan
from rankbook.symptoms import command as symptoms


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its status (argparse exits with 2)."""
    parser = argparse.ArgumentParser(prog="rankbook", description="Commands of Every Rank, Live.")
    parser.add_argument("--version", action="version", version=f"rankbook {__version__}")
    commands = parser.add_subparsers(required=True)
    doctor = commands.add_parser(
        "doctor",
        help="say what will go wrong on this machine before a job does",
        description="Say what will go wrong on this machine before a job does. Every finding is "
        "one sentence with its remedy. Status: 0, or 1 where a problem was found.",
    )
    _add_options(doctor.add_argument)
    doctor.set_defaults(run=_doctor)
    autopsy.add_command(commands)
    symptoms.add_command(commands)
    plan.add_command(commands)
    options = parser.parse_args(arguments)
    try:
        status = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # a pager, or head, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _doctor(given: argparse.Namespace) -> int:
    options = {name: value for name, value in vars(given).items() if name != "run"}
    show = as_json if options.pop("json") else as_text
    if (data := options.pop("data")) is not None:
        os.environ["RANKBOOK_DATA"] = str(data)  # what the book's programs look at
    examination = examine(Options(**options))
    print(show(examination), flush=True)
    return int(examination.problems > 0)


def _add_options(add: Callable[..., object]) -> None:
    add("--json", action="store_true", help="one JSON document instead of text")
    add("--data", type=Path, metavar="DIR", help="the data folder ($RANKBOOK_DATA)")
    add("--checkpoints", type=Path, default=Path(), metavar="DIR", help="where they will go (.)")
    add("--port", type=_port, default=29500, metavar="N", help="the rendezvous port (29500)")
    add("--peer", dest="peers", action="append", default=[], metavar="HOST", help="another node")
    add("--ranks", type=_positive, metavar="N", help="local ranks (one a GPU; 2 without GPUs)")
    add("--mesh", default="", metavar="SIZES", help="pp=2,dp=2,tp=2: does it fit the nodes?")
    add("--interface", metavar="NAME", help="the network interface that the job shall use")
    of = "of the model that is to be trained"
    add("--parameters", type=_number, default=124e6, metavar="N", help=f"{of} (124e6)")
    add("--step-seconds", type=_number, default=1.0, metavar="N", help="of one of its steps (1)")
    add("--seconds", type=_positive, default=60, metavar="N", help="give up after this long (60)")


def _positive(text: str) -> int:
    return _whole(text, 1, 10_000)


def _number(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0 < (value := float(text)) < math.inf:
            return value
    raise argparse.ArgumentTypeError(f"{text} is no number above 0")


def _port(text: str) -> int:
    return _whole(text, 1, 65535)


def _whole(text: str, least: int, most: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text} is no whole number from {least} to {most}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
