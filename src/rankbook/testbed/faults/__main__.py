"""Let things go wrong on this machine, and see that nothing is lost.

python -m rankbook.testbed.faults --seeds 12        python -m rankbook.testbed.faults --seed 17
"""

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from rankbook.testbed.faults.disk import CannotInject
from rankbook.testbed.faults.driver import Driver
from rankbook.testbed.faults.machines import Machines
from rankbook.testbed.faults.plan import draw_plan


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds; return 1 if something was lost in one."""
    parser = argparse.ArgumentParser(
        prog="python -m rankbook.testbed.faults", description=__doc__.splitlines()[0]
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--seed", type=int, help="this one only")
    which.add_argument("--seeds", type=int, default=12, help="how many (12)")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--cold", action="store_true", help="every process loads torch itself")
    options = parser.parse_args(arguments)
    seeds = range(options.first, options.first + options.seeds)
    if options.seed is not None:
        seeds = [options.seed]
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the ranks of a toy, and more than there are GPUs
    lost = skipped = 0
    folder = Path(tempfile.mkdtemp(prefix="rankbook-faults-"))
    with contextlib.closing(Machines()) as machines:
        driver = Driver(machines, folder, options.cold)
        for seed in seeds:
            try:
                run = driver.run(draw_plan(seed))
            except CannotInject as error:
                print(f"seed {seed}: skipped: {error}")
                skipped += 1
                continue
            lost += bool(run.problems)
            print(f"{run}\n  {run.seconds:.1f} s", flush=True)
    print(f"something was lost in {lost} of {len(seeds) - skipped} runs")
    if not lost:
        shutil.rmtree(folder)
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
