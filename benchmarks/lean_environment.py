"""A folder with Python and torch and nothing else, to be served, copied, or put into one image."""

import compileall
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
SKIPPED = ("site-packages", "test", "idlelib", "turtledemo", "config-*")


def distributions(*names: str) -> set[str]:
    """`names` and what they need, as far as it is installed."""
    found, to_do = set(), list(names)
    while to_do:
        name = to_do.pop().lower()
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue
        if name not in found:
            found.add(name)
            to_do += [re.match(r"[\w.-]+", n)[0] for n in needs if "extra ==" not in n]
    return found


def build(folder: Path) -> list[str]:
    """Fill `folder` with this Python, torch and numpy; the command that starts its Python."""
    base, library = Path(sys.base_prefix), Path(folder, "lib", VERSION)
    (folder / "bin").mkdir(parents=True)
    shutil.copy2(Path(sys.executable).resolve(), folder / "bin" / VERSION)
    shutil.copytree(base / "lib" / VERSION, library, ignore=shutil.ignore_patterns(*SKIPPED))
    (library / "site-packages").mkdir()
    tops = set()
    for name in distributions("torch", "numpy"):
        files = importlib.metadata.files(name) or []
        parts = {file.parts[0] for file in files if file.parts[0] not in ("..", "__pycache__")}
        tops |= {Path(files[0].locate()).parents[len(files[0].parts) - 1] / part for part in parts}
    for top in tops:
        copy = shutil.copytree if top.is_dir() else shutil.copy2
        copy(top, library / "site-packages" / top.name)
    with warnings.catch_warnings():  # files that are wrong on purpose, of tests
        warnings.simplefilter("ignore")
        compileall.compile_dir(str(folder), quiet=2)
    return python(folder)


def python(folder: Path) -> list[str]:
    """The words that start the Python of an environment, wherever it lies."""
    settings = ["env", "-i", f"PYTHONHOME={folder}", "PYTHONDONTWRITEBYTECODE=1"]
    threads = [f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 1)}"]
    return [*settings, *threads, str(folder / "bin" / VERSION), "-s"]


def pack(folder: Path) -> tuple[Path, Path]:
    """`folder` as one tar and as one image of squashfs, both beside it."""
    tar, image = folder.with_suffix(".tar"), folder.with_suffix(".squashfs")
    subprocess.run(["tar", "-C", folder, "-cf", tar, "."], check=True)
    words = ["mksquashfs", folder, image, "-comp", "lz4", "-no-progress", "-quiet"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return tar, image
