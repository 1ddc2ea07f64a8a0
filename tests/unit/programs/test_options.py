"""What holds for the options of all programs that have their own."""

import argparse
import dataclasses
import importlib
import typing
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser

from rankbook import programs
from rankbook.programs.options import typed

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


@dataclasses.dataclass(frozen=True)
class Options:
    steps: int
    batch: int


def test_typed_takes_what_was_read_and_what_was_worked_out():
    parsed = argparse.Namespace(steps=3, batch=None, verbose=True)
    assert typed(Options, parsed, batch=16) == Options(steps=3, batch=16)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'batch'"):
        typed(Options, argparse.Namespace(steps=3))
    with pytest.raises(TypeError, match="unexpected keyword argument 'rows'"):
        typed(Options, parsed, rows=1)
