"""What a phone on a slow network gets of the built book: Lighthouse on every kind of page.

    npm install --prefix DIR lighthouse           (nothing of it is part of this repository)
    python -m benchmarks.lighthouse --lighthouse DIR/node_modules/.bin/lighthouse

Serves _build/html as `make serve` does, uncompressed, and writes book/results/lighthouse.json: the
four scores of Lighthouse's own phone (mobile, simulated slow 4G, a CPU 4 times slower), the time
until there is something to see, and what the page loads. Nothing else should run meanwhile.
"""

import argparse
import functools
import http.server
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.record import RESULTS, check_repeats
from rankbook.core.results import Result

SITE = Path(__file__).resolve().parent.parent / "_build" / "html"
PAGES = {
    "front page": "en/book/en/index",
    "front page, Chinese": "zh/book/zh/index",
    "chapter with plots": "en/chapters/en/19_scaling",
    "chapter with a figure that moves": "en/chapters/en/24_bubble",
    "longest chapter": "en/chapters/en/18_uneven_inputs",
    "chapter, Chinese": "zh/chapters/zh/41_elastic",
    "symptoms": "en/book/en/symptoms",
    "glossary": "en/book/en/glossary",
    "reference": "en/book/en/api/live",
    "longest reference": "en/book/en/api/speed",
    "search": "en/search",
}
SCORES = ("performance", "accessibility", "best-practices", "seo")
TIMES = {"first paint s": "first-contentful-paint", "largest paint s": "largest-contentful-paint"}
COMMAND = "python -m benchmarks.lighthouse --lighthouse DIR/node_modules/.bin/lighthouse"
WHAT = (
    "Pages of the built book under Lighthouse's own phone (mobile, simulated slow 4G, a CPU 4 "
    "times slower), served uncompressed: scores of 100, seconds until the first and the largest "
    "part is painted, milliseconds in which the page does not react, kilobytes. Medians of "
    "{repeats} runs"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a page, and write the result."""
    options = parse(arguments)
    with served(options.site) as address:
        rows = [
            {"kind": kind, "page": page}
            | measure(f"{address}/{page}.html", options.lighthouse, options.repeats)
            for kind, page in PAGES.items()
            if options.only in (None, page)
        ]
    if options.only:
        print(*rows, sep="\n")
        return
    tools = {"lighthouse": version(options.lighthouse), "browser": version(browser())}
    result = Result(WHAT.format(repeats=options.repeats), rows, COMMAND, tools)
    print(result.write(RESULTS / "lighthouse.json"))


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; without Lighthouse the program ends with one sentence."""
    parser = argparse.ArgumentParser(description="Lighthouse on every kind of page.")
    parser.add_argument("--lighthouse", default="lighthouse", help="where its command is")
    parser.add_argument("--site", type=Path, default=SITE, help="the built book")
    parser.add_argument("--only", help="one page, printed and not recorded")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    options.lighthouse = shutil.which(options.lighthouse)
    if not options.lighthouse:
        parser.error("no Lighthouse here: npm install --prefix DIR lighthouse, then --lighthouse")
    if not (options.site / "index.html").exists():
        parser.error(f"no book in {options.site}: make book")
    return options


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of `site` while the block runs."""
    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def measure(url: str, lighthouse: str, repeats: int) -> dict:
    """The row of one page: the median of each figure over `repeats` runs."""
    runs = [figures(run(url, lighthouse)) for _ in range(repeats)]
    row = {name: statistics.median(one[name] for one in runs) for name in runs[0]}
    print(url.partition("/")[2], row, file=sys.stderr)
    return row


def run(url: str, lighthouse: str) -> dict:
    """What one run of Lighthouse reports."""
    command = [lighthouse, url, "--quiet", "--output=json", f"--only-categories={','.join(SCORES)}"]
    root = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium wants it for root
    command.append("--chrome-flags=" + " ".join(["--headless=new", *root]))
    place = {**os.environ, "CHROME_PATH": browser()}
    done = subprocess.run(command, capture_output=True, text=True, env=place, check=True)
    report = json.loads(done.stdout)
    if report.get("runtimeError"):
        raise RuntimeError(f"{url}: {report['runtimeError']['message']}")
    return report


def figures(report: dict) -> dict:
    """The figures of a report that go into the table."""
    audits = report["audits"]
    row = {name: round(100 * report["categories"][name]["score"]) for name in SCORES}
    row |= {name: round(audits[key]["numericValue"] / 1000, 1) for name, key in TIMES.items()}
    row["blocked ms"] = round(audits["total-blocking-time"]["numericValue"])
    row["layout shift"] = round(audits["cumulative-layout-shift"]["numericValue"], 3)
    row["kB"] = round(audits["total-byte-weight"]["numericValue"] / 1000)
    return row


def browser() -> str:
    """The path of the browser that Lighthouse drives."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("CHROME_PATH") or next(filter(None, map(shutil.which, names)))


def version(command: str) -> str:
    """What `command` says its version is."""
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.strip().split("\n")[-1]


if __name__ == "__main__":
    main()
