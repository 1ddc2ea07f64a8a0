"""Messages of the page Symptoms that only ranks which meet each other print: two of them here."""

import os
import subprocess
import sys

import pytest

from rankbook.symptoms import find
from tests.waiting import SOON

PROGRAM = """
import os, sys
from datetime import timedelta
import torch, torch.distributed as dist

case, rank, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
os.environ["GLOO_SOCKET_IFNAME"] = "lo"
store = dist.FileStore(f"{folder}/{case}", 2)
dist.init_process_group(
    "gloo", store=store, rank=rank, world_size=2, timeout=timedelta(seconds=900)
)
if case == "sizes":
    dist.all_reduce(torch.ones(4 + rank))
else:
    from torch.nn.parallel import DistributedDataParallel as DDP
    DDP(torch.nn.Sequential(*(torch.nn.Linear(2, 2) for _ in range(1 + rank))))
"""
LOST = {"peer-closed", "peer-reset"}  # the system says it in one way or the other
CASES = {
    "sizes": ({"size-mismatch"}, LOST),  # rank 0 is aborted, rank 1 sees it
    "models": ({"ddp-other-model"} | LOST, {"ddp-other-model"} | LOST),  # the later sees the other
}
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", CASES)
def test_what_each_rank_prints_finds_its_entry(case, tmp_path):
    line = [sys.executable, "-c", PROGRAM, case]
    where = os.environ | {"OMP_NUM_THREADS": "1"}
    both = [
        subprocess.Popen([*line, str(rank), str(tmp_path)], stderr=subprocess.PIPE, env=where)
        for rank in (0, 1)
    ]
    try:
        said = [process.communicate(timeout=SOON)[1].decode() for process in both]
    finally:
        for process in both:
            process.kill()
    found = [symptom and symptom.id for symptom in map(find, said)]
    assert all(name in may for name, may in zip(found, CASES[case], strict=True)), said
    assert set(found) - LOST  # somebody names the cause
