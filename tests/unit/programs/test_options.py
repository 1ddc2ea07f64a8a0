"""What holds for the options of all programs that have their own."""

import argparse
import dataclasses
import importlib
import typing
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser

from rankbook import programs
from rankbook.programs.options import Parser, from_namespace, option

FOLDER = Path(programs.__file__ or "").parent
LOOPS = {"retrofit"}  # files that page 47 shows, each of which runs; none takes more than a folder
CONTROLLERS = {"one_controller"}  # no program of ranks: it starts those of page A2, one by one
NAMES = sorted({path.parent.name for path in FOLDER.glob("*/__init__.py")} - LOOPS - CONTROLLERS)
every = pytest.mark.parametrize(
    "program",
    [
        *[importlib.import_module(f"rankbook.programs.{name}.options") for name in NAMES],
        importlib.import_module("benchmarks.ladder.options"),
    ],
)


def test_every_program_has_the_same_four_files():
    assert len(NAMES) >= 6
    for name in NAMES:
        has = {path.name for path in (FOLDER / name).glob("*.py")}
        assert has >= {"__init__.py", "__main__.py", "options.py", "run.py"}, name


@every
def test_a_line_is_read_into_a_frozen_dataclass(program):
    assert dataclasses.is_dataclass(program.Options)
    assert program.Options.__dataclass_params__.frozen
    assert typing.get_type_hints(program.read)["return"] is program.Options


@every
def test_torchrun_does_not_take_an_option_for_its_own(program):
    """Its parser completes what it finds anywhere in the line, and refuses `--log`, for one."""
    its = [name for action in get_args_parser()._actions for name in action.option_strings]
    ours = [name for a in program.parser()._actions for name in a.option_strings]
    taken = [name for name in ours if any(other.startswith(name) for other in its)]
    assert taken == ["-h", "--help"]


@every
def test_every_option_is_explained(program):
    silent = argparse.SUPPRESS
    assert all(a.help and a.help != silent for a in program.parser()._actions)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declared:
    save_every: int = option(int, 10, metavar="STEPS", help="(10)")
    rows: int | None = option(int, flag="--batch", group="batch", help="of all ranks")
    each: int | None = option(int, group="batch", help="of one")
    sharded: bool = option(bool, help="each rank keeps a part")
    ranks: int


def test_a_parser_is_made_of_the_fields_that_are_options():
    parser = Parser("program", "What it does.", Declared)
    made = vars(parser.parse_args([]))
    assert made == {"save_every": 10, "rows": None, "each": None, "sharded": False}
    assert made | {"ranks": 1} == dataclasses.asdict(Declared(ranks=1))
    said = parser.parse_args(["--save-every", "3", "--batch", "8", "--sharded"])
    assert from_namespace(Declared, said, ranks=2) == Declared(
        save_every=3, rows=8, sharded=True, ranks=2
    )
    for words in ("[--save-every STEPS] [--batch ROWS | --each EACH]", "--sharded "):
        assert words in parser.format_help()


def test_one_line_has_one_option_of_a_group():
    with pytest.raises(ValueError, match="argument --each: not allowed with argument --batch"):
        Parser("program", "What it does.", Declared).parse_args(["--batch", "8", "--each", "4"])


@dataclasses.dataclass(frozen=True)
class Options:
    steps: int
    batch: int


def test_from_namespace_takes_what_was_read_and_what_was_worked_out():
    parsed = argparse.Namespace(steps=3, batch=None, verbose=True)
    assert from_namespace(Options, parsed, batch=16) == Options(steps=3, batch=16)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'batch'"):
        from_namespace(Options, argparse.Namespace(steps=3))
    with pytest.raises(TypeError, match="unexpected keyword argument 'rows'"):
        from_namespace(Options, parsed, rows=1)
