"""A while in which no other thread gets hold of this one's frames."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unseen() -> Iterator[None]:
    """Let no other thread get hold of this one's frames, as those do that say where a rank is.

    Who looks at a frame keeps its local variables alive, for a second on a busy machine; among them
    are tensors that would be gone by now.
    """
    look = sys._current_frames
    setattr(sys, "_current_frames", dict)  # noqa: B010
    try:
        yield
    finally:
        setattr(sys, "_current_frames", look)  # noqa: B010
