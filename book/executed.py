"""What a test run has executed, the build takes: a chapter runs once a language, not once more."""

import fcntl
from contextlib import suppress
from pathlib import Path

from build import OUT, open_cache


def keep(path: Path, notebook, seconds: float) -> None:
    """Put an executed chapter where the build looks before it executes one.

    Chapters that end at the same time wait for each other; while a build goes on, none is kept.
    notebook: with outputs, as nbclient left it. seconds: what the execution took.
    """
    from jupyter_cache import get_cache
    from jupyter_cache.base import CacheBundleIn

    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times, which the cache would take for the input
    OUT.mkdir(exist_ok=True)
    with (
        (OUT / ".lock").open("w") as build,
        (OUT / ".keep").open("w") as others,
        suppress(BlockingIOError),
    ):
        fcntl.flock(build, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(others, fcntl.LOCK_EX)
        bundle = CacheBundleIn(notebook, str(path), data={"execution_seconds": seconds})
        get_cache(open_cache()).cache_notebook_bundle(bundle, check_validity=False, overwrite=True)
