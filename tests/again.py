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
from textwrap import indent
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
    code = pytest(folder, "first", options)
    if code == 0:
        return code
    first, twice = last_failed(folder), set()
    if code == FAILED:
        print(f"\n{name}: {len(first)} failed and are run once more, alone", flush=True)
        code = pytest(folder, "alone", [*options, *ALONE])
        twice = last_failed(folder)
    told = {"unsteady": {}, "failed": reasons(folder / "alone.xml", twice)}
    if code in (0, FAILED):
        told["unsteady"] = reasons(folder / "first.xml", first - twice)
    else:
        told["failed"][f"the pass {name}"] = f"pytest ended with {code}: see its words above"
    (folder / "told.json").write_text(json.dumps(told), "utf-8")
    return code


def pytest(folder: Path, run: str, options: list[str]) -> int:
    """Run pytest; what it remembers of failures and their reasons is kept in `folder`."""
    kept = ["-o", f"cache_dir={folder.absolute()}/cache", f"--junitxml={folder}/{run}.xml"]
    return subprocess.run([sys.executable, "-m", "pytest", *kept, *options]).returncode


def last_failed(folder: Path) -> set[str]:
    """The names of the tests that failed when they were last run."""
    path = folder / "cache/v/cache/lastfailed"
    return set(json.loads(path.read_text("utf-8"))) if path.exists() else set()


def reasons(path: Path, names: set[str]) -> dict[str, str]:
    """Of each of these tests, the last lines of the reason why it failed in a run."""
    found = {}
    for case in ElementTree.parse(path).iter("testcase") if path.exists() else ():
        for problem in (*case.iter("failure"), *case.iter("error")):
            lines = (problem.text or "").strip().splitlines()[-LINES:]
            found[case.get("classname"), case.get("name")] = "\n".join(lines)
    return {name: found.get(in_xml(name), "") for name in sorted(names)}


def in_xml(name: str) -> tuple[str, str]:
    """What pytest's XML calls a test: tests/test_a.py::test_b is tests.test_a, test_b."""
    file, *inside = name.split("::")
    classes = [file.replace("/", ".").removesuffix(".py"), *inside[:-1]]
    return ".".join(classes), inside[-1] if inside else ""


def tell() -> int:
    """Print what the passes left, the worst last; return 1 where the run as a whole failed."""
    passes = [json.loads(path.read_text("utf-8")) for path in sorted(KEPT.glob("*/told.json"))]

    def of_all(kind: str) -> dict[str, str]:
        return {name: why for told in passes for name, why in told[kind].items()}

    unsteady, failed = of_all("unsteady"), of_all("failed")
    lines = [*with_reasons(unsteady), f"unsteady: {len(unsteady)}"]
    lines += [f"  {name}" for name in unsteady]
    if len(unsteady) > MOST:
        lines += [f"more than {MOST} unsteady tests fail the run"]
    if failed:
        lines += [*with_reasons(failed), f"failed twice: {len(failed)}"]
        lines += [f"  {name}" for name in failed]
    text = "\n".join(lines)
    KEPT.mkdir(parents=True, exist_ok=True)
    (KEPT / "unsteady.txt").write_text(text + "\n", "utf-8")
    print(text)
    return 1 if failed or len(unsteady) > MOST else 0


def with_reasons(why: dict[str, str]) -> list[str]:
    """Each test and, indented, the last lines of its reason."""
    return [f"{name}\n{indent(text, '    ')}" for name, text in why.items()]


if __name__ == "__main__":
    sys.exit(run_pass(sys.argv[1], sys.argv[2:]) if sys.argv[1:] else tell())
