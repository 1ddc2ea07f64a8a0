"""Imported once by the fork server: what a rank's first failing cell would otherwise wait for."""

import sys

import IPython.core.ultratb

# The first traceback is slow: it loads a parser.
try:
    raise RuntimeError("rendered once, shown to nobody")
except RuntimeError:
    IPython.core.ultratb.VerboseTB().text(*sys.exc_info())
