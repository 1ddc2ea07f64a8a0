"""The two errors a reader can meet. Neither shows a traceback of the engine room."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rankbook.live.failure.blame import Verdict


class UsageError(Exception):
    """Something was asked for that cannot be done; one sentence says what, where, what to do."""

    def _render_traceback_(self):
        return [f"{type(self).__name__}: {self}"]


class CellFailed(Exception):
    """A cell failed on at least one rank. `report` is what the reader sees, root cause first.

    verdict: what was found, where ranks were judged.
    """

    def __init__(self, summary: str, report: str | None = None, verdict: "Verdict | None" = None):
        super().__init__(summary)
        self.report, self.verdict = report or summary, verdict

    def _render_traceback_(self):
        return [f"{type(self).__name__}: {self.report}"]
