"""The random numbers of this process: what they would be next, and setting that."""

import hashlib
import json
import random
import sys

import torch


def random_state() -> dict:
    """The state of every generator that training draws from, in plain values and tensors.

    Those of torch on the CPU and on the current GPU, of Python, and of numpy where it is loaded.
    """
    state = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    if numpy := sys.modules.get("numpy"):
        kind, key, *rest = numpy.random.get_state()
        state["numpy"] = (kind, key.tolist(), *rest)
    return state


def set_random_state(state: dict) -> None:
    """Draw from here on what followed `random_state()` then."""
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    if "numpy" in state and (numpy := sys.modules.get("numpy")):
        numpy.random.set_state(state["numpy"])


def seed_from(position: dict, rank: int) -> None:
    """Make all generators of this process a function of where the run is, and of the rank."""
    told = json.dumps([position, rank], sort_keys=True, default=str)
    seed = int.from_bytes(hashlib.sha256(told.encode()).digest()[:8], "big")
    torch.manual_seed(seed)  # GPUs too
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed % 2**32)
