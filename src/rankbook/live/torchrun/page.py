"""What launches print, on the notebook's page."""

import sys

from rankbook.live.show import NOISE, Bars


class Page:
    """Shows the events of launches in the cell that runs; use it in a ``with``."""

    def __init__(self):
        self._bars = Bars()
        self._stream = sys.stdout

    def __enter__(self) -> "Page":
        return self

    def __exit__(self, *exception) -> None:
        self._stream.flush()
        self._bars.draw(now=True)

    def show(self, kind: str, content) -> None:
        """Show one event: a line of text, or the latest state of a progress bar."""
        if kind == "bar":
            label, text, complete = content
            self._bars.update(label.strip("[]"), text, complete)
            self._bars.draw()
        elif kind == "stderr" and NOISE.match(content.partition(" ")[2]):
            pass  # what torch's native code logs when a collective breaks; the report says it
        else:
            stream = getattr(sys, kind)
            if stream is not self._stream:
                self._stream.flush()  # or the notebook would show the streams in any order
                self._stream = stream
            print(content, file=stream)
