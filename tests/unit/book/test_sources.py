"""The pages of source code know a module's file without importing it."""

import sys
from pathlib import Path

from bookext.sources import SRC, file_of


def test_every_module_of_the_library_has_its_file():
    files = sorted(SRC.rglob("*.py"))
    assert files
    for path in files:
        parts = path.relative_to(SRC).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        assert file_of(None, module) == str(path)


def test_it_is_the_file_that_python_loads():
    import rankbook.live as package
    import rankbook.training.checkpoint.reading as module

    for loaded in (module, package):
        assert file_of(None, loaded.__name__) == loaded.__file__
        assert Path(loaded.__file__).is_relative_to(SRC), sys.path
