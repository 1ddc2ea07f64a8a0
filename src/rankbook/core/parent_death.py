"""A process that ends with its parent, however the parent ends."""

import ctypes
import os
import signal
import sys
import threading
import time

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, signum: int = signal.SIGKILL) -> None:
    """Ask for `signum` when process `parent` ends; call it in the child, from its main thread.

    On Linux the system sends the signal, at once. It comes when the *thread* that started this
    process ends: start processes from a thread that lives as long as they shall. Elsewhere a
    thread looks twice a second.
    """
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signum)
        if os.getppid() != parent:  # it ended before the system knew of our wish
            os.kill(os.getpid(), signum)
        return

    def watch():
        while os.getppid() == parent:
            time.sleep(0.5)
        os.kill(os.getpid(), signum)

    threading.Thread(target=watch, daemon=True).start()
