"""Long tests are left out where their record stands (`long_form`); `make test-long` makes it."""

import json
import os
from collections import defaultdict

import pytest

ALL, STANDS = "RANKBOOK_LONG", "RANKBOOK_LONG_STANDS"  # the second for xdist's workers
REPORTS: dict[str, list] = defaultdict(list)


def pytest_configure(config) -> None:
    if ALL not in os.environ and STANDS not in os.environ:
        from tests.distributed.long_form import proven

        os.environ[STANDS] = json.dumps(proven())


def stands() -> dict[str, str]:
    """The long files that are left out, with the date of their record."""
    return json.loads(os.environ.get(STANDS, "{}"))


def pytest_report_header() -> list[str]:
    return [f"{name}: not run, its record of {date} stands" for name, date in stands().items()]


def pytest_collection_modifyitems(config, items) -> None:
    out = [item for item in items if item.get_closest_marker("long") and item.path.name in stands()]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]


def pytest_runtest_logreport(report) -> None:
    if ALL in os.environ:
        REPORTS[report.nodeid].append(report)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus) -> None:
    """Write the record, of whole files and a run that came to its end."""
    part = hasattr(session.config, "workerinput") or session.config.option.keyword
    if ALL not in os.environ or part or exitstatus not in (0, 1):
        return
    from tests.distributed.long_form import record

    passed, failed = defaultdict(list), set()
    for name, reports in REPORTS.items():
        file = name.split("::")[0].rpartition("/")[2]
        failed |= {file} if any(not report.passed for report in reports) else set()
        passed[file].append(sum(report.duration for report in reports))
    record({file: seconds for file, seconds in passed.items() if file not in failed})
