"""The same training loop before and after a retrofit: files to be read beside each other.

Each is a whole program for two ranks: ``torchrun --nproc-per-node 2 -m
rankbook.programs.retrofit.ddp_after DIR``. What is not the subject stands in `parts`.
"""
