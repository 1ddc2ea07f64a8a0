"""Chapters that nbmake has executed are kept for the book, which the tests then build from them."""

import copy
import time
from pathlib import Path

from executed import keep
from nbmake import pytest_items
from nbmake.nb_run import NotebookRun

CHAPTERS = Path(__file__).parent


class KeptRun(NotebookRun):
    """nbmake's run of a notebook; one that went well is what the page shows."""

    def execute(self):
        began = time.perf_counter()
        result = super().execute()
        path = Path(self.filename)
        if result.error is None and path.is_relative_to(CHAPTERS):
            keep(path, copy.deepcopy(result.nb), time.perf_counter() - began)
        return result


pytest_items.NotebookRun = KeptRun
