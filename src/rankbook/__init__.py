"""Every Rank, Live: live ranks in Jupyter, and the parts the book's chapters are made of."""

import os
from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

# imported when asked for: a program under torchrun imports nothing of the notebook's
if TYPE_CHECKING:
    from rankbook.live.torchrun.publish import publish

__version__ = "0.3.0"
__getattr__, __dir__ = attach(__name__, __file__)


if os.environ.get("RANKBOOK_AUTOPSY"):  # whichever program this is, it records what it does
    from rankbook.autopsy.recording import record

    record()


def load_ipython_extension(ip) -> None:
    """Add ``%ranks``, ``%%ranks``, ``%torchrun`` and ``%%torchrun`` to the IPython shell `ip`."""
    from rankbook.magics import load

    load(ip)
