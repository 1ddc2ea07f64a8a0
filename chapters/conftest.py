"""Chapters that nbmake has executed are kept for the book, which the tests then build from them."""

import copy
import time
from pathlib import Path

from executed import keep
from fingerprint import ROOT, Keys
from nbmake import pytest_items
from nbmake.nb_run import NotebookRun

CHAPTERS = Path(__file__).parent


class KeptRun(NotebookRun):
    """nbmake's run of a notebook; one that went well is what the page shows."""

    def execute(self):
        """Run the notebook, and keep what came of it."""
        path = Path(self.filename)
        ours = path.is_relative_to(CHAPTERS)
        key = Keys(ROOT).of(path) if ours else ""
        began = time.perf_counter()
        result = super().execute()
        if ours and result.error is None:
            keep(path, key, copy.deepcopy(result.nb), time.perf_counter() - began)
        return result


pytest_items.NotebookRun = KeptRun
