"""Imported once by the fork server: what ranks would otherwise all load for themselves."""

import sys
from importlib import import_module
from typing import Any

import IPython.core.ultratb

# What ipykernel loads when it starts.
MODULES = (
    "ipykernel.debugger",
    "tornado.platform.asyncio",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
)

# A rank has no debugger, as nobody could talk to it: ipykernel shall find none. Loading debugpy
# was two thirds of a rank's start.
modules: dict[str, Any] = sys.modules
modules["debugpy"] = None
for module in MODULES:
    import_module(module)
del modules["debugpy"]

# The first traceback is slow: it loads a parser.
try:
    raise RuntimeError("rendered once, shown to nobody")
except RuntimeError as error:
    IPython.core.ultratb.VerboseTB().text(type(error), error, error.__traceback__)
