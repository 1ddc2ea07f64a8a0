"""Code of the book's library, shown on a page from its own file: never a copy."""

import inspect


class Listing:
    """The source of functions, classes or modules, one after the other."""

    def __init__(self, *objects):
        self._objects = objects

    def __repr__(self) -> str:
        return "\n\n".join(inspect.getsource(thing).rstrip() for thing in self._objects)

    def _repr_markdown_(self) -> str:
        return f"```python\n{self!r}\n```"


def listing(*objects) -> Listing:
    """What a notebook shows as the highlighted source of `objects`."""
    return Listing(*objects)
