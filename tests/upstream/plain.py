"""A shell as a reader's: without what our magics and tests set."""

import os
from pathlib import Path

VARIABLE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
OURS = ("TORCH", "RANKBOOK", "MASTER", "GLOO")


def environment(folder: Path, variable: str = "") -> dict[str, str]:
    """For torchrun, whose files go to `folder`; the value of `VARIABLE`, if it is set."""
    plain = {name: at for name, at in os.environ.items() if not name.startswith(OURS)}
    said = {VARIABLE: variable} if variable else {}
    return plain | {"OMP_NUM_THREADS": "1", "TMPDIR": str(folder)} | said
