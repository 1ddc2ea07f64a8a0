"""Every wrapping of a pipeline's stages under every schedule, tried with the torch that is here.

python -m rankbook.programs.wrappings --schedule zbv 1f1b --microbatches 4
"""

import importlib.util
import json
import os
import platform
import sys
import tempfile
from pathlib import Path

import torch
import torch.multiprocessing as mp

from rankbook.core.results import machine
from rankbook.programs.ending import exit_on_user_error
from rankbook.programs.wrappings.options import Options, read
from rankbook.programs.wrappings.ranks import RANKS, try_all
from rankbook.programs.wrappings.text import tables


def main(arguments: list[str] | None = None) -> dict:
    """Try what the options say; print a table, or JSON, and return what it says.

    A wrapping that is wrong is a finding, not a failure: the status is 0.
    """
    with exit_on_user_error("wrappings"):
        options = read(sys.argv[1:] if arguments is None else arguments)
        check_numpy()
    with exit_on_user_error("wrappings", OSError):
        report = {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "where": machine(torch.device("cpu")),
            "rows": rows(options),
        }
    print(json.dumps(report, indent=1) if options.json else tables(report), flush=True)
    return report


def check_numpy() -> None:
    """Raise ImportError without numpy: every trial of fully_shard would raise (torch 2.13)."""
    if importlib.util.find_spec("numpy") is None:
        raise ImportError("torch's fully_shard needs numpy, which is not here; pip install numpy")


def rows(options: Options) -> list[dict]:
    """One row a trial, from four ranks that are started here, on this machine's loopback."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch reads it when a rank imports it
    with tempfile.TemporaryDirectory() as folder:
        given = folder, options.trials()
        mp.start_processes(try_all, given, nprocs=RANKS, start_method="spawn")
        return json.loads(Path(folder, "rows.json").read_text("utf-8"))
