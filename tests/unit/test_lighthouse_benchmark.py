"""The benchmark of Lighthouse: its command line, and what it takes from a report."""

from benchmarks import lighthouse

TIMES = {"first-contentful-paint": 1234.5, "largest-contentful-paint": 2001}
OTHERS = {"total-blocking-time": 7.6, "cumulative-layout-shift": 0.01239, "total-byte-weight": 2e5}


def test_the_figures_of_a_report():
    report = {
        "categories": {name: {"score": 0.954} for name in lighthouse.SCORES},
        "audits": {name: {"numericValue": value} for name, value in {**TIMES, **OTHERS}.items()},
    }
    assert lighthouse.figures(report) == {
        **dict.fromkeys(lighthouse.SCORES, 95),
        "first paint s": 1.2,
        "largest paint s": 2.0,
        "blocked ms": 8,
        "layout shift": 0.012,
        "kB": 200,
    }
