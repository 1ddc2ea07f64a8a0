"""Every message of the page Symptoms is one that the installed libraries print, or our own code.

An entry says where its message comes from: a file of an installed package or of ours, whose text
must hold all of its parts that never vary; or "produced", then something below produces it.
"""

import ast
import contextlib
import errno
import importlib
import importlib.util
import io
import os
import pickle
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch

from rankbook.symptoms.entries import VARIES, Symptom, every

SOURCE = Path(__file__).resolve().parents[3] / "src"
MESSAGES = [s for s in every() if s.kind == "message"]
WRITTEN = [s for s in MESSAGES if s.source != "produced"]


def place(source: str) -> Path:
    """The file of an installed package or of ours, however it was installed."""
    package, _, rest = source.partition("/")
    if package == "rankbook":
        return SOURCE / source
    found = importlib.util.find_spec(package)
    assert found is not None and found.submodule_search_locations, f"{package} is not installed"
    return Path(found.submodule_search_locations[0]) / rest


@cache
def texts(path: Path) -> list[str]:
    """All that a Python file could say: its strings and names, each in one line."""
    tree = ast.walk(ast.parse(path.read_text("utf-8")))
    constants, names = [], []
    for node in tree:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            constants.append(" ".join(node.value.split()))
        elif isinstance(node, ast.ClassDef):
            names.append(node.name)
    return constants + names


@cache
def contents(path: Path) -> bytes:
    return path.read_bytes()


def says(path: Path, part: str) -> bool:
    if path.suffix == ".py":
        return any(part in text for text in texts(path))
    return part.encode() in contents(path)


@pytest.mark.parametrize("symptom", WRITTEN, ids=lambda s: s.id)
def test_its_source_says_every_part_of_the_message(symptom: Symptom):
    path = place(symptom.source)
    assert path.is_file(), f"{symptom.source} is not there"
    missing = [part for part in symptom.fixed if not says(path, part)]
    assert not missing, f"{symptom.source} does not say {missing}"


@pytest.mark.parametrize("symptom", MESSAGES, ids=lambda s: s.id)
def test_enough_of_a_message_never_varies(symptom: Symptom):
    """Else the tests here would hold next to nothing."""
    fixed = sum(map(len, symptom.fixed))
    assert fixed >= 14 or fixed > 0.8 * len(symptom.message())


def raised(call) -> str:
    with pytest.raises(Exception) as caught:
        call()
    return f"{caught.type.__module__}.{caught.type.__qualname__}: {caught.value}"


def torchrun_says(line: str) -> str:
    from torch.distributed.run import parse_args

    said = io.StringIO()
    with contextlib.redirect_stderr(said), pytest.raises(SystemExit):
        parse_args(line.split())
    return said.getvalue()


def program_says() -> str:
    """A program with options of its own, started by the old launcher."""
    program = "import argparse; argparse.ArgumentParser().parse_args()"
    line = [sys.executable, "-c", program, "--local-rank=0"]
    return subprocess.run(line, capture_output=True, text=True).stderr


def join() -> None:
    from torch.distributed.algorithms.join import Join

    Join([torch.nn.Linear(1, 1)])  # ty: ignore


def child_failed() -> None:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

    raise ChildFailedError("train.py", {0: ProcessFailure(0, 1, 1, os.devnull)})


def worker_info() -> int:
    return torch.utils.data.get_worker_info().num_workers  # type: ignore[union-attr]


def full_disk() -> None:
    torch.save(torch.zeros(1_000_000), "/dev/full")


def torn_file() -> None:
    whole = io.BytesIO()
    torch.save(torch.zeros(1000), whole)
    torch.load(io.BytesIO(whole.getvalue()[:2000]), weights_only=True)


def in_shell(command: str) -> str:
    return subprocess.run(command, shell=True, capture_output=True, text=True).stderr


def reset() -> str:
    """As gloo puts it together: its own words, and the system's for the error."""
    assert says(place("torch/lib/libtorch_cpu.so"), "Read error ")
    return f"Read error [127.0.0.1]:4018: {os.strerror(errno.ECONNRESET)}"


PRODUCED = {
    "peer-reset": reset,
    "join-hook-missing": lambda: raised(join),
    "local-rank-argument": program_says,
    "launcher-argument": lambda: torchrun_says("--train_data_file train.txt train.py"),
    "empty-variables": lambda: torchrun_says("--node_rank --master_addr --master_port train.py"),
    "spawn-main": lambda: raised(lambda: pickle.loads(b"c__main__\nworker\n.")),
    "cuda-not-found": lambda: in_shell("CUDA VISIBLE DEVICE=0 echo trains"),
    "pipe-gone": lambda: raised(lambda: importlib.import_module("torch.distributed.pipeline.sync")),
    "datapipes-gone": lambda: raised(lambda: importlib.import_module("torchdata.datapipes")),
    "data-worker-info-none": lambda: raised(worker_info),
    "out-of-cpu-memory": lambda: raised(lambda: torch.empty(10**16)),
    "disk-full": lambda: raised(full_disk),
    "torn-checkpoint": lambda: raised(torn_file),
    "child-failed": lambda: raised(child_failed),
}


def test_what_is_produced_is_produced_here():
    assert {s.id for s in MESSAGES if s.source == "produced"} == PRODUCED.keys()


@pytest.mark.parametrize("name", PRODUCED)
def test_a_reproduction_prints_the_message(name):
    (symptom,) = [s for s in every() if s.id == name]
    said = " ".join(PRODUCED[name]().split())
    missing = [part for part in symptom.fixed if part not in said]
    assert not missing, f"it says: {said}"


def test_what_varies_is_marked():
    assert VARIES.sub("_", "Rank {0} of {4}") == "Rank _ of _"
