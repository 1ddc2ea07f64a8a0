"""Record a program that knows nothing of it: `torchrun ... -m rankbook.autopsy.run train.py ...`.

Also `python -m rankbook.autopsy.run -m package.module ...`. `$RANKBOOK_AUTOPSY` says where.
"""

import runpy
import sys
from pathlib import Path

from rankbook.autopsy.recording import VARIABLE, record


def main() -> None:
    """Start the recorder, then the program that the command line names, as Python would."""
    words = sys.argv[1:]
    is_module = words[:1] == ["-m"]
    words = words[is_module:]
    if not words:
        sys.exit("rankbook.autopsy.run: name the program: SCRIPT [options], or -m MODULE [options]")
    if record() is None:
        sys.exit(f"rankbook.autopsy.run: say in {VARIABLE} where to record")
    sys.argv = words
    if is_module:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        script = Path(words[0]).resolve()
        sys.path[0] = str(script.parent)
        runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()
