"""Hand-made records and dumps, in the forms that the recorder and torch write."""

import json
import os
from pathlib import Path
from typing import Any

NOW = 1_800_000_000.0
FRAME = ["/job/train.py", 12, "step", "dist.all_reduce(total)", True]
INSIDE = [["/x/site-packages/torch/distributed/distributed_c10d.py", 9, "all_reduce", "", False]]


def call(number: int, op: str = "all_reduce", shape: str = "float32 [4]", **more: Any) -> dict:
    """A call as a record has it: done, of the default group, unless said otherwise."""
    made = {"group": "0", "number": number, "op": op, "inputs": [shape], "outputs": [shape],
            "done": True, "time": NOW - 60 + number, "frames": []}  # fmt: skip
    return made | more


def record(folder: Path, rank: int, calls: list[dict], ago: float = 0.0, **more: Any) -> Path:
    """The record of a rank, last seen `ago` seconds before NOW, on another machine than this."""
    waits = bool(calls) and not calls[-1]["done"]
    made = {"rank": rank, "world_size": 2, "node": 0, "local_rank": rank, "restart": 0,
            "host": "n1", "machine": "another", "pid": 100 + rank, "ppid": 1, "born": "7",
            "started": NOW - 100, "seconds": 1.0, "since": NOW - 30,
            "threads": [{"name": "MainThread", "frames": [*(INSIDE if waits else []), FRAME]}],
            "peer": None, "groups": {}, "made": 1, "recorder": True, "entries": calls,
            "ended": None} | more  # fmt: skip
    path = folder / f"{made['host']}-{made['pid']}-{int(made['started'])}.json"
    path.write_text(json.dumps(made))
    os.utime(path, (NOW - ago, NOW - ago))
    return path


def nccl_dump(number: int, state: str, ranks: str = "[0, 1]") -> dict:
    """A dump of NCCL's recorder with one all_reduce, as torch 2.13 writes it."""
    entry = {
        "frames": [{"name": "step", "filename": "/job/train.py", "line": 12}],
        "record_id": 0, "pg_id": 0, "process_group": ("0", "default_pg"),
        "collective_seq_id": number, "p2p_seq_id": 0, "op_id": number,
        "profiling_name": "nccl:all_reduce", "time_created_ns": int(NOW * 1e9) + number,
        "input_sizes": [[4]], "input_dtypes": ["Float"], "output_sizes": [[4]],
        "output_dtypes": ["Float"], "state": state, "time_discovered_started_ns": 1,
        "time_discovered_completed_ns": None, "retired": state == "completed",
        "timeout_ms": 600000, "is_p2p": False,
    }  # fmt: skip
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": ranks}}
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": [entry]}
