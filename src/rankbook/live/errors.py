"""The two errors a reader can meet. Neither shows a traceback of the engine room."""


class UsageError(Exception):
    """Something was asked for that cannot be done; one sentence says what, where, what to do."""

    def _render_traceback_(self):
        return [f"{type(self).__name__}: {self}"]


class CellFailed(Exception):
    """A cell failed on at least one rank. `report` is what the reader sees, root cause first."""

    def __init__(self, summary: str, report: str | None = None):
        super().__init__(summary)
        self.report = report or summary

    def _render_traceback_(self):
        return [f"{type(self).__name__}: {self.report}"]
