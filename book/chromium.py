"""The system's Chromium, for whatever looks at pages: tests, stills, the contact sheet."""

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ["--no-sandbox", "--disable-gpu"]


def program() -> str | None:
    """Where it is; None if there is none on the PATH."""
    return next(filter(None, map(shutil.which, NAMES)), None)
