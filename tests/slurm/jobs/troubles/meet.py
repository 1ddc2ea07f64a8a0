"""Two tasks of Slurm make a group of gloo over each of the interfaces that are named.

Prints a line of JSON for each: the interface, the seconds, and the error ("" for none). An
interface that is to do has its patience with it: "eth0=900".
"""

import json
import os
import sys
import time
from datetime import timedelta

import torch.distributed as dist

TIMEOUT = 0.6  # seconds, of a group for which none are named
rank, head = int(os.environ["SLURM_PROCID"]), os.environ["HEAD"]
store = dist.TCPStore(head, 29999, 2, is_master=rank == 0, timeout=timedelta(seconds=900))
for word in sys.argv[1:]:
    interface, _, patience = word.partition("=")
    os.environ["GLOO_SOCKET_IFNAME"] = interface
    here, error = dist.PrefixStore(interface, store), ""
    here.set(f"here {rank}", "")
    here.wait([f"here {1 - rank}"])  # both begin at the same time
    start, group = time.monotonic(), None
    try:
        group = dist.ProcessGroupGloo(here, rank, 2, timedelta(seconds=float(patience or TIMEOUT)))
    except RuntimeError as failed:
        error = str(failed)
    seconds = time.monotonic() - start
    print(json.dumps({"interface": interface, "seconds": seconds, "error": error}), flush=True)
    here.set(f"done {rank}", "")
    here.wait([f"done {1 - rank}"])  # a group that ends earlier closes the other's connections
    del group
if rank:
    store.set("over", "")
else:
    store.wait(["over"])  # who has the store leaves last
os._exit(0)  # without waiting for threads of groups that were never made
