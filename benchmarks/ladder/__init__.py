"""Training recipes of a film review classifier, timed one factor at a time.

python -m benchmarks.ladder --ladder cpu
torchrun --standalone --nproc-per-node 2 -m benchmarks.ladder --recipe sdpa --strategy fsdp2
"""
