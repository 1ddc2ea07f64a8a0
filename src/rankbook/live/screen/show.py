"""What ranks and launches show in a cell: prefixed text, labelled figures, progress bars."""

import json
import re
import sys
import time
import uuid

from IPython.display import clear_output, display, publish_display_data

from rankbook.live.screen.output import Item, label

# What torch's native code logs when a collective breaks; the cell's report says it better.
NOISE = re.compile(r"^\[rank\d+\]:\[E.*ProcessGroup(Gloo|Wrapper)")


class CellScreen:
    """Shows what the live ranks of a cell print and draw, once it is merged."""

    def __init__(self):
        self._text: list[str] = []
        self._stream = "stdout"
        self._bars = Bars()

    def emit(self, ranks: set, item: Item) -> None:
        """Show an item of `ranks`; text waits for `flush`."""
        if item.kind == "display":
            self._display(ranks, json.loads(item.content))
            return
        if item.kind == "stderr" and NOISE.match(item.content):
            return
        if item.kind != self._stream:
            self.flush()
            self._stream = item.kind
        self._text.append(f"{label(ranks)} {item.content}\n")

    def bar(self, rank: int, text: str, complete: bool) -> None:
        """Show the latest state of a rank's progress bar."""
        self._bars.update(rank, text, complete)

    def flush(self) -> None:
        """Write the text that waits."""
        if self._text:
            stream = getattr(sys, self._stream)
            stream.write("".join(self._text))
            stream.flush()
            self._text.clear()
        self._bars.draw()

    def clear(self, wait: bool) -> None:
        """A rank cleared the cell's output, to draw it anew."""
        self.flush()
        clear_output(wait)

    def close(self) -> None:
        """The cell ended: show everything."""
        self.flush()
        self._bars.draw(now=True)

    def _display(self, ranks: set, message: dict) -> None:
        data, metadata = message["data"], message["metadata"]
        if set(data) == {"text/plain"}:
            for line in data["text/plain"].split("\n"):
                self.emit(ranks, Item("stdout", line))
            return
        if not message["update"]:
            self.emit(ranks, Item("stdout", ""))  # the label; an update has its place already
        self.flush()
        transient = {}
        if display_id := message.get("display_id"):
            transient = {"display_id": f"{label(ranks)}-{display_id}"}
        publish_display_data(data, metadata, transient=transient, update=message["update"])


class LaunchScreen:
    """Shows the events of launches (see `torchrun.follower.Follower`); use it in a ``with``."""

    def __init__(self):
        self._bars = Bars()
        self._stream = sys.stdout

    def __enter__(self) -> "LaunchScreen":
        return self

    def __exit__(self, *exception) -> None:
        self._stream.flush()
        self._bars.draw(now=True)

    def show(self, kind: str, content) -> None:
        """Show one event: a line of text, or the latest state of a progress bar."""
        if kind == "bar":
            ranks, text, complete = content
            self._bars.update(ranks.strip("[]"), text, complete)
            self._bars.draw()
        elif kind == "stderr" and NOISE.match(content.partition(" ")[2]):
            pass  # what torch's native code logs when a collective breaks; the report says it
        else:
            stream = getattr(sys, kind)
            if stream is not self._stream:
                self._stream.flush()  # or the notebook would show the streams in any order
                self._stream = stream
            print(content, file=stream)


class Bars:
    """One text block, updated in place, with a line for every bar of every rank."""

    def __init__(self, every: float = 0.1):
        self._bars: dict[int | str, list[tuple[str, bool]]] = {}  # by rank: text, complete
        self._every, self._drawn_at, self._drawn = every, 0.0, ""
        self._id = uuid.uuid4().hex

    def update(self, rank: int | str, text: str, complete: bool) -> None:
        """Take a bar's new text; after a complete bar comes the rank's next one."""
        bars = self._bars.setdefault(rank, [])
        if bars and not bars[-1][1]:
            bars.pop()
        bars.append((text, complete))

    def draw(self, now: bool = False) -> None:
        """Show the block if it changed, at most every tenth of a second."""
        rows = [(i, r, b[0]) for r, bars in self._bars.items() for i, b in enumerate(bars)]
        text = "\n".join(f"[{rank}] {line}" for _, rank, line in sorted(rows))
        if text == self._drawn or not (now or time.monotonic() - self._drawn_at > self._every):
            return
        data = {"text/plain": text}
        display(data, raw=True, display_id=self._id, update=bool(self._drawn))
        self._drawn, self._drawn_at = text, time.monotonic()
