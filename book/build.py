"""Build the book in both languages: ``_build/html/{en,zh}/`` and a root page that chooses.

Usage: ``python book/build.py [--all]``. A language whose inputs did not change is left as it is; a
chapter is executed only if what it reaches changed. Whatever fails, there is a book: a chapter that
stops is shown up to there, and said at the end, and the exit status is 1. A warning is an error.
"""

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from build_record import in_words
from execution.leaving import adopt_orphans, end_all_below
from execution.lock import Locked
from fingerprint import OUT, ROOT, RememberedKeys, page_key
from pages import FRAME, LANGUAGES, SITE, address, build_pages
from site_root import around

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """A signal told this process to end."""


def main() -> int:
    """Build what changed; return the exit status, 1 when a chapter or a language failed."""
    parser = argparse.ArgumentParser(description="Build the book in both languages.")
    parser.add_argument("--all", action="store_true", help="rebuild the pages of both languages")
    everything = parser.parse_args().all
    return leaving_nothing(lambda: locked_run(everything))


def leaving_nothing(run: Callable[[], int]) -> int:
    """Run it; a signal ends it with one sentence, and what it started ends with it, always."""
    adopt_orphans()
    for number in SIGNALS:
        signal.signal(number, end)
    try:
        return run()
    except Ended as ending:
        number = ending.args[0]
        for again in SIGNALS:
            signal.signal(again, signal.SIG_IGN)
        end_all_below()
        print(f"\nEnded by {signal.Signals(number).name}. {kept_so_far()}", flush=True)
        os._exit(128 + number)  # threads that wait for what has just been ended are not waited for


def end(number: int, _frame) -> None:
    raise Ended(number)


def kept_so_far() -> str:
    """What an interrupted build leaves to the next one."""
    kept = len({path.parent for path in (OUT / "executions").glob("*/*.ipynb")})
    return f"{kept} executed chapters are kept; the next make book goes on from there."


def locked_run(everything: bool) -> int:
    """The build itself, one at a time in a checkout."""
    data = ROOT.parent / "shared" / "data"
    if data.is_dir():  # the Makefile's rule, for a build that was started without make
        os.environ.setdefault("RANKBOOK_DATA", str(data))
    # The kernel named python3 must be this environment's, not one in the user's home.
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    well = True
    with Locked(OUT / ".lock"):
        for language in LANGUAGES if everything else ():
            (OUT / language / FRAME).unlink(missing_ok=True)
        keys = {language: page_key(ROOT, language) for language in LANGUAGES}
        stale = {lang: key for lang, key in keys.items() if everything or not stands(lang, key)}
        for language in [language for language in LANGUAGES if language not in stale]:
            print(f"{LANGUAGES[language]}: up to date")
        if stale:
            well = build(stale)
        if SITE.is_dir():
            around(SITE, address())
    if SITE.is_dir():
        print(f"Open {SITE / 'index.html'} in a browser, or run: make serve", flush=True)
    return 0 if well else 1


def stamp(language: str) -> Path:
    """Where the key stands that the pages of `language` were built under."""
    return OUT / f"{language}.key"


def stands(language: str, key: str) -> bool:
    """Are the pages of `language` there, and made under `key`?"""
    return (
        (SITE / language).is_dir()
        and stamp(language).exists()
        and stamp(language).read_text() == key
    )


def build(stale: dict[str, str]) -> bool:
    """Execute what is not kept, then build the pages; whether all went well.

    stale: the languages, with the keys of their pages.
    """
    for language in stale:
        stamp(language).unlink(missing_ok=True)
    shown, failed = executions(list(stale))
    jobs = max(1, (os.cpu_count() or 1) // len(stale))
    with ThreadPoolExecutor() as pool:
        built = list(pool.map(lambda language: build_pages(language, shown, jobs), stale))
    for language, well in zip(stale, built, strict=True):
        if well and not failed:
            stamp(language).write_text(stale[language])
    if failed:
        from stopped import list_of

        print(list_of(failed), flush=True)
    return all(built) and not failed


def executions(languages: list[str]) -> tuple[dict[str, Path], list]:
    """The execution of each chapter (``chapters/en/11_ranks_live``), and those that failed.

    A chapter's code is the same in both languages, and which of them it is in is nothing that it
    can see: what was executed for one is the other's, too.
    """
    from executed import find, find_stopped

    folders = [ROOT / "chapters" / language for language in languages]
    chapters = RememberedKeys(ROOT, OUT / "keys.json").of(
        path for folder in folders for path in folder.glob("*.ipynb")
    )
    missing: dict[tuple[str, str], Path] = {}
    for path, key in chapters.items():
        if not find(path, key):
            missing.setdefault((path.stem, key), path)
    failed = execute_missing([(path, key) for (_, key), path in missing.items()])
    found = {path: find(path, key) or find_stopped(path, key) for path, key in chapters.items()}
    return {name(path): kept for path, kept in found.items() if kept}, failed


def execute_missing(wanted: list[tuple[Path, str]]) -> list:
    """Execute the chapters, each with its key, and say how it goes; return those that failed."""
    if not wanted:
        return []
    from execute import AT_A_TIME, execute  # slow to import, and not needed where nothing changed
    from stopped import shown

    left, failed, began = len(wanted), [], time.monotonic()
    print(f"Executing {left} chapters, {AT_A_TIME} at a time. {in_words()}".strip(), flush=True)
    for done in execute(wanted):
        left -= 1
        what = "stopped after " if done.outcome.failure else ""
        passed = (time.monotonic() - began) / 60
        row = f"{done.chapter.stem}: {what}{done.outcome.seconds:.0f} s, {left} left"
        print(f"  {row} ({passed:.0f} min)", flush=True)
        if done.outcome.failure:
            failed.append(done)
            print(shown(done), flush=True)
    return failed


def name(chapter: Path) -> str:
    return str(chapter.relative_to(ROOT).with_suffix(""))


if __name__ == "__main__":
    sys.exit(main())
