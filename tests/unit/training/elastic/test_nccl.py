"""The facts about NCCL have their form, and fit the torch that is installed."""

import re
from pathlib import Path

import pytest
import torch

from rankbook.training.elastic.nccl import nccl_faults, nccl_waits

PACKAGE = Path(torch.__file__).parent
HEADER = PACKAGE / "include/torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp"


def test_every_fault_says_who_ends_it_and_where_that_was_read():
    faults, waits = nccl_faults(), nccl_waits()
    assert len({each.fault for each in faults}) == len(faults) == 10
    for each in faults:
        assert all([each.hangs, each.ends, each.code, each.then, each.source]), each
        assert set(each.waits) <= waits.keys()
        assert each.code.startswith(("-6", "-9", "-15"))
        # only the watchdog and the monitor abort
        assert ("-6" in each.code) == bool({"collective", "dump", "heartbeat"} & set(each.waits))


def test_the_sources_are_in_this_torch():
    """Python's as they are; of C++ there are the declarations only, and of NCCL nothing."""
    facts = [*nccl_waits().values(), *nccl_faults()]
    for source in {source for fact in facts for source in fact.source}:
        file, function = source.rsplit(": ", 1)
        if file.startswith("nccl"):
            continue
        code = HEADER if file == "pgn" else PACKAGE / "distributed/elastic" / file
        *owner, name = re.split(r"::|\.", function)
        text = code.read_text("utf-8")
        assert re.search(rf"\b{name}\(", text), source
        assert not owner or re.search(rf"class \S*{owner[0]}\b", text), source


def test_the_defaults_are_this_torchs_where_it_can_be_asked():
    header, waits = HEADER.read_text("utf-8"), nccl_waits()
    assert "std::chrono::milliseconds(10 * 60 * 1000)" in header
    assert waits["collective"].seconds == 10 * 60
    for wait in waits.values():
        assert not wait.setting.startswith("TORCH_") or f'"{wait.setting}"' in header
    assert waits["dump"].seconds % waits["dump"].factor == 0


def test_seconds_add_up_and_can_be_changed():
    silent = next(each for each in nccl_faults() if "says nothing" in each.fault)
    assert silent.seconds() == 660
    assert silent.seconds(collective=60, dump=4) == 64
    assert silent.seconds(restart=1) == 660  # waits for something else
    recorded = {each.recorded: each for each in nccl_faults()}
    killed, stopped = recorded["worker, SIGKILL"], recorded["worker, SIGSTOP"]
    assert killed.seconds() == 30 and killed.seconds(restart=0) == 0  # SIGTERM is not caught
    assert stopped.seconds() == stopped.seconds(restart=0) == 690  # which cannot end this one
    with pytest.raises(ValueError, match=r"no wait is called \['timeout'\]; there are \['coll"):
        silent.seconds(timeout=3)
