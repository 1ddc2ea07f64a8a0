"""``rankbook doctor``: what will go wrong on this machine, before a job does.

A check is a file with a function ``findings(options)``, which yields what it finds, and with small
functions that are given what they look at. Needs nothing but torch, and reports its absence.
"""

from rankbook.doctor.examination import CHECKS, Examination, examine
from rankbook.doctor.finding import Finding, Options
from rankbook.doctor.report import as_json, as_text

__all__ = ["CHECKS", "Examination", "Finding", "Options", "as_json", "as_text", "examine"]
