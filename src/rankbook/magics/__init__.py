"""The magics: parse, call, show. The work is done in `rankbook.live` and `rankbook.testbed`.

``%load_ext rankbook`` adds those that every chapter uses. ``%load_ext rankbook.magics.cluster``
adds the cluster's, which need a machine that can have one.
"""

import importlib
import sys
from importlib.util import find_spec

from rankbook.live.errors import UsageError

NAMES = ("ranks", "torchrun")
# what the magics cannot do without: what is imported, and what pip calls it
NEEDED = {
    "torch": "torch",
    "ipykernel": "ipykernel",
    "jupyter_client": "jupyter_client",
    "zmq": "pyzmq",
    "psutil": "psutil",
    "executing": "executing",
}


def load(ip) -> None:
    """Add ``%ranks``, ``%%ranks``, ``%torchrun`` and ``%%torchrun`` to the IPython shell `ip`.

    Raises UsageError without a shell, and where a package is missing: the magics are there then,
    but say the same when they are used.
    """
    if ip is None:
        raise UsageError(
            "%load_ext rankbook: the magics work in Jupyter and in IPython, and this is Python "
            "alone; start `jupyter lab` or `ipython` (pip install ipython) and load them there"
        )
    if sentence := _lacking():
        for name in NAMES:
            ip.register_magic_function(_stand_in(ip, name), "line_cell", name)
        raise UsageError(f"%load_ext rankbook: {sentence}")
    from rankbook.magics import ranks, torchrun

    ranks.register(ip)
    torchrun.register(ip)


def _lacking() -> str:
    """What this Python does not have, in a sentence without a subject; "" if nothing is missing."""
    importlib.invalidate_caches()  # it may have been installed a moment ago
    names = [pip for module, pip in NEEDED.items() if find_spec(module) is None]
    if not names:
        return ""
    what = " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
    return (
        f"{sys.executable} has no {what}; %pip install {' '.join(names)}, "
        "then %load_ext rankbook again"
    )


def _stand_in(ip, name: str):
    """A magic that says what is missing, until nothing is: then the real one takes its place."""

    def magic(line, cell=None):
        if sentence := _lacking():
            raise UsageError(f"%{name}: {sentence}")
        ip.run_line_magic("load_ext", "rankbook")
        if cell is None:
            return ip.run_line_magic(name, line)
        return ip.run_cell_magic(name, line, cell)

    return magic
