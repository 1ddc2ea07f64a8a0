"""What holds for the options of all programs that have their own."""

import argparse

import pytest
from torch.distributed.run import get_args_parser

from rankbook.programs import pipe_ddp_options, train_lm_options, uneven

programs = pytest.mark.parametrize("program", [pipe_ddp_options, train_lm_options, uneven])


@programs
def test_torchrun_does_not_take_an_option_for_its_own(program):
    """Its parser completes what it finds anywhere in the line, and refuses `--log`, for one."""
    its = [name for action in get_args_parser()._actions for name in action.option_strings]
    ours = [name for a in program.parser()._actions for name in a.option_strings]
    taken = [name for name in ours if any(other.startswith(name) for other in its)]
    assert taken == ["-h", "--help"]


@programs
def test_every_option_is_explained(program):
    silent = argparse.SUPPRESS
    assert all(a.help and a.help != silent for a in program.parser()._actions)
