"""A pass of the tests; what fails is run once more, alone: python tests/again.py PASS OPTION ...

The options are pytest's. A test that passes the second time is unsteady: the pass goes well, and
`python tests/again.py` without more tells of it after all passes, and of what failed twice. Each
unsteady test is a defect, of the test or of the book, until found out; more than `MOST` of them
fail the run.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

KEPT = Path("_build/tests")
MOST = 2
FAILED = 1  # pytest's exit code where tests failed, and nothing worse happened
LINES = 6  # of a reason
ALONE = ["--last-failed", "--numprocesses=0", "--dist=no"]


def run_pass(name: str, options: list[str]) -> int:
    """Run pytest with `options`, and again what failed; return the exit code of the pass."""
    folder = KEPT / name
    shutil.rmtree(folder, ignore_errors=True)
    code = pytest(folder, options)
    if code != FAILED:
        return code
    first = last_failed(folder)
    print(f"\n{name}: {len(first)} failed and are run once more, alone", flush=True)
    code = pytest(folder, [*options, *ALONE, f"--junitxml={folder}/alone.xml"])
    twice = last_failed(folder)
    unsteady = sorted(first - twice) if code in (0, FAILED) else []
    told = {"unsteady": unsteady, "failed": sorted(twice), "reasons": reasons(folder / "alone.xml")}
    (folder / "told.json").write_text(json.dumps(told), "utf-8")
    return code


def pytest(folder: Path, options: list[str]) -> int:
    """Run pytest; what it remembers of failures is kept in `folder`."""
    kept = f"cache_dir={folder.absolute()}/cache"
    return subprocess.run([sys.executable, "-m", "pytest", "-o", kept, *options]).returncode


def last_failed(folder: Path) -> set[str]:
    """The names of the tests that failed when they were last run."""
    path = folder / "cache/v/cache/lastfailed"
    return set(json.loads(path.read_text("utf-8"))) if path.exists() else set()


def reasons(path: Path) -> list[str]:
    """Of each test that failed in this run, its name and the last lines of the reason."""
    found = []
    for case in ElementTree.parse(path).iter("testcase") if path.exists() else ():
        for problem in (*case.iter("failure"), *case.iter("error")):
            last = "\n    ".join((problem.text or "").strip().splitlines()[-LINES:])
            found.append(f"{case.get('classname')} {case.get('name')}\n    {last}")
    return found


def tell() -> int:
    """Print what the passes left, the worst last; return 1 where the run as a whole failed."""
    passes = [json.loads(path.read_text("utf-8")) for path in sorted(KEPT.glob("*/told.json"))]

    def of_all(kind: str) -> list[str]:
        return [line for told in passes for line in told[kind]]

    unsteady, failed = of_all("unsteady"), of_all("failed")
    lines = [f"unsteady: {len(unsteady)}", *(f"  {name}" for name in unsteady)]
    if len(unsteady) > MOST:
        lines += [f"more than {MOST} unsteady tests fail the run"]
    if failed:
        lines += [*of_all("reasons"), f"failed twice: {len(failed)}"]
        lines += [f"  {name}" for name in failed]
    text = "\n".join(lines)
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / "unsteady.txt").write_text(text + "\n", "utf-8")
    print(text)
    return 1 if failed or len(unsteady) > MOST else 0


if __name__ == "__main__":
    sys.exit(run_pass(sys.argv[1], sys.argv[2:]) if sys.argv[1:] else tell())
