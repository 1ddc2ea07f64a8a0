"""Do the English chapters run on this box, and how long does each take?"""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.gpu.options import parse
from benchmarks.gpu.parts import MORE
from benchmarks.gpu.rows import Rows

CHAPTERS = Path(__file__).resolve().parents[2] / "chapters" / "en"
WHAT = "The English chapters, executed one after the other: seconds, each in a kernel of its own"
LIMIT_S = 240
NEEDED = ("ipykernel", "nbmake", "pytest")


def main(arguments: list[str] | None = None) -> int:
    """Execute what was not executed yet; 1 if a chapter has failed, 75 if there are more."""
    options = parse(arguments, "Execute the English chapters.")
    rows = Rows("chapters-gpu-1", WHAT, options.device)
    end = time.monotonic() + 60 * options.minutes
    chapters = sorted(CHAPTERS.glob("*.ipynb"))[: 1 if options.tiny else None]
    for chapter in chapters:
        if time.monotonic() > end and chapter.stem not in rows.rows:
            return MORE
        rows.measure(chapter.stem, lambda chapter=chapter: execute(chapter))
    return rows.failed()


def execute(chapter: Path) -> dict:
    """One row. Raises LookupError without the packages for it, RuntimeError if a cell raises."""
    missing = [name for name in NEEDED if not importlib.util.find_spec(name)]
    if missing:
        raise LookupError(f"{', '.join(missing)}: not installed here; make test-gpu installs it")
    with tempfile.TemporaryDirectory(dir=CHAPTERS.parent) as folder:  # as deep as chapters/en
        copy = shutil.copy(chapter, folder)
        start = time.perf_counter()
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbmake"]
        done = subprocess.run(
            [*command, f"--nbmake-timeout={LIMIT_S}", copy],
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - start
    if done.returncode:
        raise RuntimeError((done.stdout.strip().splitlines() or ["pytest said nothing"])[-1])
    return {"seconds": round(seconds, 1)}


if __name__ == "__main__":
    sys.exit(main())
