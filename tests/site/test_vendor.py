"""The vendored libraries are the files that their README names, with their licences."""

import hashlib
import re
from pathlib import Path

VENDOR = Path(__file__).resolve().parents[2] / "book" / "static" / "vendor"


def test_files_are_unchanged():
    readme = (VENDOR / "README.md").read_text("utf-8")
    named = re.findall(r"`([\w./-]+\.js)`.*?`([0-9a-f]{64})`", readme)
    assert len(named) == 2
    for name, expected in named:
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == expected, name
        assert (VENDOR / name).parent.joinpath("LICENSE").exists()
    scripts = {str(path.relative_to(VENDOR)) for path in VENDOR.rglob("*.js")}
    assert scripts == {name for name, _ in named}
