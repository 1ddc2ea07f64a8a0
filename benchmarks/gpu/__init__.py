"""What is to be measured when a machine with a GPU can be had, in parts of eight minutes at most.

    make gpu-records                    every part that is not done yet
    python -m benchmarks.gpu --list     the parts, and how far each one is
    python -m benchmarks.gpu --part ladder

It needs nothing but the box's own torch. Each part is a process of its own, which writes each row
into ``book/results`` once it is measured and goes on from there when it is started again. What
cannot run there says why, in a line. ``--rehearse`` does all of it on the CPU, tiny, into a folder
that is removed: so the programs are tested where there is no GPU.
"""
