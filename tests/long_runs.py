"""Long tests are left out where their record stands (`long_form`); `make test-long` makes it.

With `RANKBOOK_LONG=1` any whole run does, `make test` too.

A plugin of pytest, which `tests/conftest.py` names.
"""

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

MAKE, STANDS = "RANKBOOK_LONG", "RANKBOOK_LONG_STANDS"  # the second for xdist's workers
REPORTS: dict[str, list] = defaultdict(list)


def pytest_configure(config) -> None:
    """Once, before xdist's workers are started."""
    if STANDS not in os.environ:
        from tests.long_form import long_files, standing

        os.environ[STANDS] = json.dumps(standing([f for f in long_files() if asked(config, f)]))


def asked(config, file: Path) -> bool:
    """Whether the command line asks for `file`."""

    def below(words) -> bool:
        return any(file.is_relative_to(Path(str(w).split("::")[0]).absolute()) for w in words or ())

    return below(config.args) and not below(config.option.ignore)


def stands() -> dict[str, str]:
    """The files whose long tests are left out, with the date of their record."""
    return json.loads(os.environ[STANDS])[0]


def seen_pages(file: str) -> list[str]:
    """The pages that the long tests of `file` went through, and that are what they were then."""
    return json.loads(os.environ[STANDS])[1].get(file, [])


def pytest_report_header() -> list[str]:
    whole, pages = json.loads(os.environ[STANDS])
    told = [f"{name}: long tests left out, the record of {on} stands" for name, on in whole.items()]
    part = (f"{name}: long tests leave {len(seen)} pages out" for name, seen in pages.items())
    return [*told, *part]


def pytest_collection_modifyitems(config, items) -> None:
    def left(item) -> bool:
        name = item.path.relative_to(config.rootpath).as_posix()
        return item.get_closest_marker("long") is not None and name in stands()

    out = [item for item in items if left(item)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]


def pytest_runtest_logreport(report) -> None:
    if MAKE in os.environ and "long" in report.keywords:
        REPORTS[report.nodeid].append(report)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus) -> None:
    """Write the record, of whole files and a run that came to its end."""
    config = session.config
    chosen = config.getoption("keyword") or config.getoption("lf", False)
    chosen = chosen or any("::" in arg for arg in config.args)
    part = chosen or hasattr(config, "workerinput")
    if MAKE not in os.environ or part or exitstatus not in (0, 1):
        return
    from tests.long_form import record

    passed, failed = defaultdict(list), set()
    for name, reports in REPORTS.items():
        file = name.split("::")[0]
        failed |= {file} if any(not report.passed for report in reports) else set()
        passed[file].append(sum(report.duration for report in reports))
    record({file: seconds for file, seconds in passed.items() if file not in failed})
