"""Environments that never saw the checkout: their own Python, the wheel, and what they are given.

A box that trains has its own torch, which `pip install` must leave alone. So has an environment
here: this one's torch, by links to its files and to what it needs. Everything else comes from the
package index.
"""

import os
import re
import shutil
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HIDDEN = ("PYTHON", "RANKBOOK", "VIRTUAL_ENV")  # of this environment's variables


def build_wheel(folder: Path) -> Path:
    """The wheel, made as pip makes it, of a copy: a build leaves files where it works."""
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, source)
    _run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, source, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    return wheel


class Environment:
    """A virtual environment in a folder of its own, and a place to work beside it."""

    def __init__(self, folder: Path):
        self.folder, self.work = folder / "env", folder / "work"
        self.work.mkdir(parents=True)
        venv.create(self.folder, symlinks=True)
        self.python = self.folder / "bin" / "python"
        (self.packages,) = (self.folder / "lib").glob("python*/site-packages")

    def give(self, packages: Path, without: tuple[str, ...] = ()) -> "Environment":
        """Link all that is in `packages`, another environment's, but the names in `without`."""
        for entry in packages.iterdir():
            name = re.split(r"[-.]", entry.name)[0].lower()
            link = self.packages / entry.name
            if name not in without and not link.exists():
                link.symlink_to(entry)
        return self

    def give_installed(self, *names: str) -> None:
        """Link the files of this environment's distributions `names` and of all that they need."""
        for name in _with_needs(names):
            files = metadata.distribution(name).files or []
            for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
                entry = Path(str(metadata.distribution(name).locate_file(top)))
                link = self.packages / top
                if entry.exists() and not link.exists():
                    link.symlink_to(entry)

    def pip_install(self, *what: str | Path) -> str:
        """Install by this environment's pip, into this one; return what pip said."""
        pip = (sys.executable, "-m", "pip", "--python", self.python, "install")
        return _run(*pip, "--disable-pip-version-check", *what, cwd=self.work)

    def run(self, *words: str | Path, status: int | None = 0) -> str:
        """Run a program of this environment; return what it printed, errors too.

        status: what it must end with; None if that is all one.
        """
        program, *rest = words
        path = self.folder / "bin" / program
        return _run(path, *rest, cwd=self.work, status=status, env=self.variables)

    @property
    def variables(self) -> dict[str, str]:
        """What its processes see: nothing that leads to the checkout."""
        env = {name: value for name, value in os.environ.items() if not name.startswith(HIDDEN)}
        return env | {"PATH": f"{self.folder / 'bin'}:{env['PATH']}"}


def _with_needs(names: tuple[str, ...]) -> set[str]:
    """The distributions and, in turn, all that they need and that is installed here."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name in found:
            continue
        try:
            needs = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another system, or an extra
        found.add(name)
        todo += [re.split(r"[^\w.-]", need)[0] for need in needs if "extra ==" not in need]
    return found


def _run(
    *words: str | Path, cwd: Path, status: int | None = 0, env: dict[str, str] | None = None
) -> str:
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=env,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=600,
    )
    assert status in (None, done.returncode), done.stdout
    return done.stdout
