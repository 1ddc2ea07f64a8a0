"""The options that the programs of the parts share."""

import argparse
from pathlib import Path

import torch

from benchmarks import record


def parse(arguments: list[str] | None, about: str) -> argparse.Namespace:
    """Device (with ``cuda`` one GPU) and the folder of the results, which `record` then uses."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="(cuda)")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="(book/results)")
    parser.add_argument("--minutes", type=float, default=6.0, help="to begin nothing after (6)")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no GPU here; --device cpu tries the program on the CPU")
    options.device = torch.device(options.device, 0 if options.device == "cuda" else None)
    options.tiny = options.device.type == "cpu"
    if options.results:
        record.RESULTS = options.results
    return options
