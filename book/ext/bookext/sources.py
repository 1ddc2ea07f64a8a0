"""Where a module's file is, for the pages of source code: known without importing the module.

Sphinx asks this for each module in each build, only to compare times, and imports it for the
answer: torch, Lightning and Transformers with it, for ten seconds.
"""

from pathlib import Path

from sphinx.ext import viewcode

SRC = Path(__file__).resolve().parents[3] / "src"


def file_of(_app, module: str) -> str:
    """The path of the file of a `module` of the library."""
    path = SRC.joinpath(*module.split("."))
    return str(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))


def setup(_app):
    viewcode.get_module_filename = file_of
