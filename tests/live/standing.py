"""Waits until live ranks stand where a test wants them, while a cell of theirs runs.

That a rank has printed a line does not say that it is past it. So a thread of the notebook asks the
ranks, as ``%ranks status`` does, and tells the test by a file.
"""

from pathlib import Path

from tests.live.kernel import Notebook
from tests.waiting import until

ASK = """import pathlib, re, threading, time
from rankbook.magics.ranks import RanksMagics
def tell(asked):
    while asked.parent.exists():
        if asked.exists():
            status = RanksMagics.session.status()
            if all(re.search(place, status) for place in asked.read_text().splitlines()):
                asked.unlink()
        time.sleep(0.02)
threading.Thread(target=tell, args=(pathlib.Path({path!r}),), daemon=True).start()"""


class Standing:
    """Asks where the ranks of `notebook` are. folder: one that nothing else uses."""

    def __init__(self, notebook: Notebook, folder: Path):
        self._asked, self._new = folder / "asked", folder / "new"
        assert not notebook.run(ASK.format(path=str(self._asked))).error

    def until(self, places: dict[int, str]) -> None:
        """Wait until each of these ranks is at its place, a regular expression."""
        lines = [f"rank {rank}: .*busy .*{place}" for rank, place in places.items()]
        self._new.write_text("\n".join(lines))
        self._new.rename(self._asked)  # at once
        until(lambda: not self._asked.exists())

    def forget(self) -> None:
        """Ask no more."""
        self._asked.unlink(missing_ok=True)
        self._asked.parent.rmdir()
