"""The pages of one language: Jupyter Book, given chapters that are executed already."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml
from fingerprint import OUT, ROOT, frame_key

SITE = OUT / "html"
FRAME = "frame.key"  # what the texts that Sphinx has read stood in
LEAN = Path("_build") / "lean"  # where `bookext.weight` leaves the pages, in a language's folder
LANGUAGES = {"en": "English", "zh": "Chinese"}
SHOWN = re.compile(r"Executed notebook|WARNING: |ERROR: |CRITICAL: |^[\w.]+Error: .")
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def build_pages(language: str, kept: dict[str, Path], jobs: int = 1) -> bool:
    """Build the pages of `language`; return whether they stand.

    kept: the execution of each chapter, by the name of its page; a chapter may have stopped.
    jobs: processes to write pages with.
    """
    work = OUT / language
    started = time.monotonic()
    chapters = {page: path for page, path in kept.items() if f"/{language}/" in page}
    frame = frame_key(ROOT, language, [chapters[page] for page in sorted(chapters)])
    start_from(work, frame)
    config = configuration(language)
    config["execute"]["cache"] = str(work / "cache")
    context = config["sphinx"]["config"]["html_context"]
    context["executed"] = fill(work / "cache", chapters)
    merged = work / "_config.yml"
    merged.write_text(yaml.safe_dump(config, allow_unicode=True), "utf-8")
    well, made = run_jupyter_book(language, merged, work, jobs), work / LEAN
    if well:
        (work / FRAME).write_text(frame)
    else:
        log = (work / "build.log").relative_to(ROOT)
        print(f"{LANGUAGES[language]}: the build failed; the whole log is in {log}", flush=True)
    if (made / "searchindex.js").exists():  # which comes last: pages with a warning are pages
        shutil.rmtree(SITE / language, ignore_errors=True)
        SITE.mkdir(exist_ok=True)
        made.rename(SITE / language)
        seconds = time.monotonic() - started
        print(f"{LANGUAGES[language]}: pages built in {seconds:.0f} s", flush=True)
    return well


def start_from(work: Path, frame: str) -> None:
    """Leave in the folder what Sphinx made when all but the texts was the same, else nothing.

    Sphinx then reads and writes the pages whose text changed. Nor is anything left of a build with
    warnings: Sphinx would not say them again.
    """
    last = work / FRAME
    if last.exists() and last.read_text() == frame:
        last.unlink()  # until this build has ended well
    else:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()


def address() -> str:
    """Where the site will stand, ``html.baseurl``, with a slash at its end; empty if not set."""
    base = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["html"].get("baseurl")
    return base.rstrip("/") + "/" if base else ""


def configuration(language: str) -> dict:
    """The root ``_config.yml`` with the language's overlay and absolute paths."""
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    overlay = ROOT / "book" / language / "_config.yml"
    if overlay.exists():
        config = merge(config, yaml.safe_load(overlay.read_text("utf-8")))
    if base := address():
        config["html"]["baseurl"] = f"{base}{language}/"
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


def fill(folder: Path, chapters: dict[str, Path]) -> dict[str, dict]:
    """Put the executed `chapters` where Jupyter Book looks before it executes one.

    Returns how long each took and when that was, by the name of its page.
    """
    from executed import read
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn

    cache, executed = get_cache(folder), {}
    for page, path in chapters.items():
        notebook = read(path)
        executed[page] = json.loads(json.dumps(notebook.metadata.executed))  # as plain types
        bundle = CacheBundleIn(notebook, page, data={})
        cache.cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
    return executed


def run_jupyter_book(language: str, config: Path, work: Path, jobs: int) -> bool:
    """Run Jupyter Book, show what it complains of, write all it says to ``build.log``."""
    toc = ROOT / ("_toc.yml" if language == "en" else f"book/{language}/_toc.yml")
    start = (  # it cannot be run with -m, nor told how many processes Sphinx may take
        "import gc; gc.disable(); "  # it would walk all the pages again and again, and free little
        "from functools import partial; from rankbook.core.parent_death import die_with_parent; "
        f"die_with_parent({os.getpid()}); import jupyter_book.sphinx as book; "
        f"book.build_sphinx = partial(book.build_sphinx, jobs={jobs}); "
        "from jupyter_book.cli.main import main; main()"
    )
    command = [sys.executable, "-c", start, "build", ROOT, "-W", "-n", "--keep-going"]
    command += ["--config", config, "--toc", toc, "--path-output", work]
    with (
        (work / "build.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            [str(part) for part in command],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            process_group=0,  # a Ctrl-C is for the build
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process,
    ):
        for line in process.stdout or ():
            log.write(plain(line))
            if SHOWN.search(plain(line)):
                print("  " + plain(line).replace(f"{ROOT}/", "").rstrip(), flush=True)
    return process.returncode == 0


def plain(text: str) -> str:
    """Without the escape sequences of a terminal."""
    return ESCAPES.sub("", text)
