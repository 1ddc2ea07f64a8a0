"""``python -m tests.distributed.in_64_bits MODULE [options]``: a program of the book, in 64 bits.

In 32, AdamW magnifies what another order of sums rounds: by how much hangs on the text, and each
Python carries another one. In 64, what is left is far below what a wrong program would be off by.
"""

import runpy
import sys

import torch

if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
