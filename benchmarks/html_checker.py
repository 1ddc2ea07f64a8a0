"""Is the built book valid HTML? The Nu Html Checker (vnu) over every page, source listings too.

    npm install --prefix DIR vnu-jar              (needs java; nothing of it is in this repository)
    python -m benchmarks.html_checker --jar DIR/node_modules/vnu-jar/build/dist/vnu.jar

Writes book/results/html_checker.json: pages and errors, and which errors there are. With the jar
named in VNU_JAR, tests/site/test_valid.py asks the same of every build.
"""

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from benchmarks.record import RESULTS
from rankbook.core.results import Result

SITE = Path(__file__).resolve().parent.parent / "_build" / "html"
COMMAND = "python -m benchmarks.html_checker --jar DIR/node_modules/vnu-jar/build/dist/vnu.jar"
WHAT = (
    "Errors that the Nu Html Checker finds in the HTML of the built book, inlined SVG and MathML "
    "included"
)
KINDS = {"chapters": "chapters", "book": "front page and reference", "_modules": "source listings"}
OTHERS = "search, index, old addresses"


def main(arguments: list[str] | None = None) -> None:
    """Check all pages, print the errors, and write the result."""
    parser = argparse.ArgumentParser(description="The Nu Html Checker over the built book.")
    parser.add_argument("--jar", type=Path, required=True, help="where vnu.jar is")
    parser.add_argument("--site", type=Path, default=SITE, help="the built book")
    options = parser.parse_args(arguments)
    if not options.jar.is_file():
        parser.error(f"there is no {options.jar}: npm install --prefix DIR vnu-jar")
    pages = every(options.site)
    if not pages:
        parser.error(f"no book in {options.site}: make book")
    found = errors(options.jar, pages)
    for error in found:
        print(f"{error['url']}:{error.get('lastLine')}: {error['message']}", file=sys.stderr)
    rows = table(pages, found, options.site)
    tools = {"vnu": version(options.jar)}
    print(Result(WHAT, rows, COMMAND, tools).write(RESULTS / "html_checker.json"))


def every(site: Path) -> list[Path]:
    """All pages of the book."""
    return sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)


def errors(jar: Path, pages: list[Path]) -> list[dict]:
    """What the checker calls errors; of a page that may be better HTML it also warns."""
    command = ["java", "-jar", str(jar), "--errors-only", "--format", "json", *map(str, pages)]
    done = subprocess.run(command, capture_output=True, text=True)
    return [m for m in json.loads(done.stderr)["messages"] if m["type"] == "error"]


def table(pages: list[Path], found: list[dict], site: Path) -> list[dict]:
    """One row for each kind of page."""
    wrong = Counter(kind(error["url"].removeprefix("file:"), site) for error in found)
    return [
        {"kind": name, "pages": count, "errors": wrong[name]}
        for name, count in Counter(kind(str(page), site) for page in pages).items()
    ]


def kind(path: str, site: Path) -> str:
    """Which kind of page it is."""
    parts = Path(path).relative_to(site).parts
    return next((KINDS[part] for part in parts if part in KINDS), OTHERS)


def version(jar: Path) -> str:
    """The version of the checker, with Java's."""
    done = subprocess.run(["java", "-jar", str(jar), "--version"], capture_output=True, text=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
