"""Every Rank, Live: live ranks in Jupyter, and the parts the book's chapters are made of."""

from rankbook.live.publish import publish

__all__ = ["load_ipython_extension", "publish"]
__version__ = "0.1.0"


def load_ipython_extension(ip):
    """Add ``%ranks``, ``%%ranks``, ``%torchrun`` and ``%%torchrun`` to the IPython shell `ip`."""
    from rankbook.magics import load_ipython_extension as load

    load(ip)
