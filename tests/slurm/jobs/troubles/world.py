"""A worker that says how many there are, and waits for a file if one is named. No torch in it."""

import os
import pathlib
import sys
import time

print("world of", os.environ["WORLD_SIZE"], flush=True)
while sys.argv[1:] and not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.1)
