"""Build the book in both languages: ``_build/html/{en,zh}/`` and a root page that chooses.

Usage: ``python book/build.py [--all]``. A language whose inputs did not change is left as it is; a
chapter is executed only if what it reaches changed. A warning is an error; a chapter that fails is
shown with its cell and traceback.
"""

import argparse
import fcntl
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fingerprint import OUT, ROOT, Keys, page_key
from pages import LANGUAGES, SITE, address, build_pages, configuration, plain
from site_root import around


def main() -> int:
    """Build what changed; return the exit status, 1 when a chapter or a language failed."""
    parser = argparse.ArgumentParser(description="Build the book in both languages.")
    parser.add_argument("--all", action="store_true", help="rebuild the pages of both languages")
    everything = parser.parse_args().all
    data = ROOT.parent / "shared" / "data"
    if data.is_dir():  # the Makefile's rule, for a build that was started without make
        os.environ.setdefault("RANKBOOK_DATA", str(data))
    # The kernel named python3 must be this environment's, not one in the user's home.
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"
    OUT.mkdir(exist_ok=True)
    with (OUT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second build waits for the first
        keys = {language: page_key(ROOT, language) for language in LANGUAGES}
        stale = {lang: key for lang, key in keys.items() if everything or not stands(lang, key)}
        for language in [language for language in LANGUAGES if language not in stale]:
            print(f"{LANGUAGES[language]}: up to date")
        if stale and not build(stale):
            return 1
        around(SITE, address())
    print(f"Open {SITE / 'index.html'} in a browser, or run: make serve")
    return 0


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
    kept = executions(list(stale))
    if kept is None:
        return False
    with ThreadPoolExecutor() as pool:
        built = list(pool.map(lambda language: build_pages(language, kept), stale))
    for language, well in zip(stale, built, strict=True):
        if well:
            stamp(language).write_text(stale[language])
    return all(built)


def executions(languages: list[str]) -> dict[str, Path] | None:
    """The kept execution of each chapter (``chapters/en/11_ranks_live``); None if one failed.

    A chapter's code is the same in both languages, and which of them it is in is nothing that it
    can see: what was executed for one is the other's, too.
    """
    from execute import execute  # slow to import, and not needed where nothing changed
    from executed import find

    keys = Keys(ROOT)
    folders = [ROOT / "chapters" / language for language in languages]
    chapters = {path: keys.of(path) for folder in folders for path in folder.glob("*.ipynb")}
    missing: dict[tuple[str, str], Path] = {}
    for path, key in chapters.items():
        if not find(path, key):
            missing.setdefault((path.stem, key), path)
    left, failed = len(missing), False
    if missing:
        print(f"Executing {left} chapters, two at a time ...", flush=True)
    wanted = [(path, key) for (_, key), path in missing.items()]
    for done in execute(wanted, configuration("en")["execute"]["timeout"]):
        left -= 1
        print(f"  {done.chapter.stem}: {done.seconds:.0f} s, {left} left", flush=True)
        if done.failure:
            failed = True
            explain(done.chapter, done.failure)
    if failed:
        return None
    return {name(path): kept for path, key in chapters.items() if (kept := find(path, key))}


def name(chapter: Path) -> str:
    return str(chapter.relative_to(ROOT).with_suffix(""))


def explain(chapter: Path, failure: str) -> None:
    """Show the cell and the traceback of a chapter that failed."""
    line = "=" * 78
    print(f"\n{line}\n{name(chapter)} failed {plain(failure)}\n{line}\n", flush=True)


if __name__ == "__main__":
    sys.exit(main())
