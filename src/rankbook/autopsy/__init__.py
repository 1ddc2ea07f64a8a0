"""What became of a job that hangs or failed: which rank is missing, and which calls differ."""

from typing import TYPE_CHECKING

from rankbook.core.lazy import attach

if TYPE_CHECKING:
    from rankbook.autopsy.compare import Parting, partings
    from rankbook.autopsy.finding import Finding
    from rankbook.autopsy.flight import Entry, Frame, recent_collectives
    from rankbook.autopsy.judging import judge
    from rankbook.autopsy.page import as_dict, as_text
    from rankbook.autopsy.picture import as_svg
    from rankbook.autopsy.reading import Job, RankRecord, read
    from rankbook.autopsy.recording import record

__getattr__, __dir__ = attach(__name__, __file__)
