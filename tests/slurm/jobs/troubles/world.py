"""A worker that says how many there are, and waits for a file if one is named. No torch in it."""

import os
import pathlib
import sys
import time

# in one piece: unbuffered, print writes each argument by itself, and two workers' may be mixed
sys.stdout.write(f"world of {os.environ['WORLD_SIZE']}\n")
sys.stdout.flush()
while sys.argv[1:] and not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.1)
