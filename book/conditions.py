"""The two kinds of machine that every chapter is executed on in a test run."""

import os

from execution.turns import BUSY

# for pages of which there are more than cores: OpenMP's threads sleep while they wait
ASLEEP = {"OMP_WAIT_POLICY": "PASSIVE"}
# the least that torch can do (no AVX2, no AVX-512), no folder of texts, no hub: the stand-ins; and
# other pages run while a cell times something
ELSEWHERE = {"ATEN_CPU_CAPABILITY": "default", "HF_HUB_OFFLINE": "1", BUSY: "1"}


def environment(elsewhere: bool) -> dict[str, str]:
    """This machine as it is, or another one: a plainer processor, busy, and nobody's data."""
    found = dict(os.environ)
    if elsewhere:
        found.pop("RANKBOOK_DATA", None)
        found |= ELSEWHERE
    return found
