"""An examination as text for a terminal of 80 columns, or as JSON for scripts."""

import json
import textwrap

from rankbook.doctor.examination import Examination
from rankbook.doctor.finding import LEVELS

WIDTH = 80
PLURALS = {"warning": "warnings", "problem": "problems"}  # of levels that have one


def as_text(examination: Examination) -> str:
    """The findings by level, problems last: where the eye is when a command has ended."""
    host, time = examination.machine["host"], examination.machine["time"][:19]
    lines = [f"rankbook doctor on {host}, {time.replace('T', ' ')} UTC", ""]
    for level in LEVELS:
        here = [(check, found) for check, found in examination.findings if found.level == level]
        for check, finding in here:
            start = f"{level:8} {check.replace('_', ' '):12} "
            indent = " " * len(start)
            lines += textwrap.wrap(
                finding.says,
                WIDTH,
                initial_indent=start,
                subsequent_indent=indent,
                break_on_hyphens=False,
                break_long_words=False,
            )
    return "\n".join([*lines, "", _summary(examination)])


def _summary(examination: Examination) -> str:
    counts = []
    for level in reversed(LEVELS):
        count = examination.count(level)
        counts.append(f"{count} {level if count == 1 else PLURALS.get(level, level)}")
    return f"{', '.join(counts)}; {examination.seconds:.1f} s"


def as_json(examination: Examination) -> str:
    """One document: ``machine``, ``findings`` (check, level, name, says, value), ``counts``."""
    document = {
        "machine": examination.machine,
        "findings": [{"check": check, **f._asdict()} for check, f in examination.findings],
        "counts": {level: examination.count(level) for level in LEVELS},
        "seconds": round(examination.seconds, 3),
    }
    return json.dumps(document, indent=1, ensure_ascii=False)
