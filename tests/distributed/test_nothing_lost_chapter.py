"""What page 42 says of torch.save and torch.load; and what torchrun takes for the end."""

import os
import struct
import subprocess
import sys
import textwrap
from pickle import UnpicklingError

import pytest
import torch

from rankbook.training.checkpoint import CheckpointError, Checkpoints

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts", "3"]


def test_status_75_is_started_again_and_status_0_is_the_end(tmp_path):
    """A rank that leaves early with 0 ends the job: torchrun takes it for done."""
    program, lives = tmp_path / "program.py", tmp_path / "lives"
    program.write_text(
        textwrap.dedent(f"""
        import os, sys
        life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
        with open({str(lives)!r}, "a") as file:
            print(life, file=file)
        sys.exit([75, 75, 0][life])
        """)
    )
    command = [*TORCHRUN, "--nproc-per-node", "1", "--monitor-interval", "0.1", str(program)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert lives.read_text().split() == ["0", "1", "2"]


def test_torch_save_empties_the_old_file_before_the_new_one_is_there(tmp_path):
    """In between there is neither: here the state itself looks, while it is written."""
    path, seen = tmp_path / "checkpoint.pt", []

    class Looks:
        def __reduce__(self):
            seen.append(path.stat().st_size)
            return dict, ()

    torch.save({"weight": torch.zeros(1000)}, path)
    whole = path.stat().st_size
    torch.save({"weight": torch.zeros(1000), "look": Looks()}, path)
    assert seen and max(seen) < whole


def test_a_checkpoint_that_lacks_its_end_cannot_be_loaded(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save({"weight": torch.zeros(1000)}, path)
    content = path.read_bytes()
    for size in (1, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises((RuntimeError, OSError, UnpicklingError)):
            torch.load(path)


def test_torch_load_does_not_see_that_a_bit_of_a_weight_was_flipped(tmp_path):
    """As measured with torch 2.13: where this fails, page 42 has to change. A checksum sees it."""
    kept = Checkpoints(tmp_path, say=lambda line: None)
    kept.save(1, {"weight": torch.full((100,), 30.0)})
    (file,) = kept.paths()
    content = bytearray(file.read_bytes())
    content[content.index(struct.pack("<f", 30.0)) + 3] ^= 1
    file.write_bytes(content)
    assert torch.load(file)["weight"][0] == 7.5
    with pytest.raises(CheckpointError, match=r"no checkpoint in .* is whole"):
        kept.newest()
