"""Build the book in both languages: ``_build/html/{en,zh}/`` and a root page that chooses.

Usage: ``python book/build.py [--all]``. A language whose inputs did not change is left as it is.
A warning is an error; a chapter that fails is shown with its cell and traceback.
"""

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml
from fingerprint import execution_key, page_key

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "_build"
SITE = OUT / "html"
CACHES = OUT / "cache"
LANGUAGES = {"en": "English", "zh": "Chinese"}
SHOWN = re.compile(r"Executed notebook|WARNING: |ERROR: |CRITICAL: |^[\w.]+Error: .")
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def main() -> int:
    """Build what changed; return the exit status, 1 when a language failed."""
    parser = argparse.ArgumentParser(description="Build the book in both languages.")
    parser.add_argument("--all", action="store_true", help="rebuild the pages of both languages")
    everything = parser.parse_args().all
    data = ROOT.parent / "shared" / "data"
    if data.is_dir():  # the Makefile's rule, for a build that was started without make
        os.environ.setdefault("RANKBOOK_DATA", str(data))
    OUT.mkdir(exist_ok=True)
    with (OUT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second build waits for the first
        cache = open_cache()
        if not all(build(language, cache, everything) for language in LANGUAGES):
            return 1
        shutil.copy(ROOT / "book" / "root.html", SITE / "index.html")
    print(f"Open {SITE / 'index.html'} in a browser, or run: make serve")
    return 0


def open_cache() -> Path:
    """The folder of executed chapters for this code and these versions; older ones are removed."""
    cache = CACHES / execution_key(ROOT)
    cache.mkdir(parents=True, exist_ok=True)
    for old in CACHES.iterdir():
        if old != cache:
            shutil.rmtree(old)
    return cache


def build(language: str, cache: Path, everything: bool) -> bool:
    """Build one language if anything it is made from changed; return whether it stands."""
    name, work, stamp = LANGUAGES[language], OUT / language, OUT / f"{language}.key"
    key = page_key(ROOT, language, cache.name)
    if not everything and (SITE / language).is_dir() and read(stamp) == key:
        print(f"{name}: up to date")
        return True
    print(f"{name}: building ...", flush=True)
    stamp.unlink(missing_ok=True)
    # Sphinx would keep a page whose warnings it printed last time: each build starts afresh.
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    config = work / "_config.yml"
    config.write_text(yaml.safe_dump(configuration(language, cache), allow_unicode=True), "utf-8")
    started = time.monotonic()
    if not run_jupyter_book(language, config, work):
        explain(work, name)
        return False
    shutil.rmtree(SITE / language, ignore_errors=True)
    SITE.mkdir(exist_ok=True)
    (work / "_build" / "html").rename(SITE / language)
    stamp.write_text(key)
    print(f"{name}: built in {time.monotonic() - started:.0f} s", flush=True)
    return True


def configuration(language: str, cache: Path) -> dict:
    """The root ``_config.yml`` with the language's overlay, cache and absolute paths."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    overlay = ROOT / "book" / language / "_config.yml"
    if overlay.exists():
        config = merge(config, yaml.safe_load(overlay.read_text("utf-8")))
    config["execute"]["cache"] = str(cache)
    extensions = config["sphinx"]["local_extensions"]  # relative to the merged file's folder
    config["sphinx"]["local_extensions"] = {k: str(ROOT / v) for k, v in extensions.items()}
    return config


def merge(base: dict, overlay: dict) -> dict:
    """`base` with `overlay` laid over it, dictionaries inside included; lists are replaced."""
    nested = {
        key: merge(base[key], value)
        if isinstance(value, dict) and isinstance(base.get(key), dict)
        else value
        for key, value in overlay.items()
    }
    return {**base, **nested}


def run_jupyter_book(language: str, config: Path, work: Path) -> bool:
    """Run Jupyter Book, show its progress, write all it says to ``build.log``."""
    toc = ROOT / ("_toc.yml" if language == "en" else f"book/{language}/_toc.yml")
    start = "from jupyter_book.cli.main import main; main()"  # it cannot be run with -m
    command = [sys.executable, "-c", start, "build", ROOT, "--all", "-W", "-n", "--keep-going"]
    command += ["--config", config, "--toc", toc, "--path-output", work]
    # The kernel named python3 must be this environment's, not one in the user's home.
    env = {**os.environ, "JUPYTER_PREFER_ENV_PATH": "1", "PYTHONUNBUFFERED": "1"}
    with (
        (work / "build.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        for line in process.stdout:
            plain = ESCAPES.sub("", line)
            log.write(plain)
            if SHOWN.search(plain):
                print("  " + plain.replace(f"{ROOT}/", "").rstrip(), flush=True)
    return process.returncode == 0


def explain(work: Path, name: str) -> None:
    """Show the cell and the traceback of every chapter that failed, then where the log is."""
    reports = work / "_build" / "html" / "reports"
    for report in sorted(reports.rglob("*.err.log")):
        chapter = str(report.relative_to(reports)).removesuffix(".err.log")
        print(f"\n{'=' * 78}\n{chapter} failed:\n\n{ESCAPES.sub('', report.read_text('utf-8'))}")
    log = work / "build.log"
    print(f"\n{name}: the build failed; the whole log is in {log.relative_to(ROOT)}", flush=True)


def read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
