"""Write what `make test-gpu` has just verified into ``book/results/chapters.json``.

Usage: ``python book/record_gpu.py FOLDER``, the folder with the executed notebooks. One entry a
chapter and device: an older one is replaced. The cards at the top of the chapters show them.
"""

import json
import sys
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from rankbook.core.atomic import write_text_atomic

BOOK = Path(__file__).resolve().parent
RESULTS = BOOK / "results" / "chapters.json"
sys.path.insert(0, str(BOOK / "ext"))

from bookext.verified import gpu_names, placement  # noqa: E402 - the path comes first


def main(folder: Path, results: Path = RESULTS) -> None:
    """Record every executed notebook in `folder`."""
    old = json.loads(results.read_text("utf-8")) if results.exists() else []
    box = gpu_names()
    new = [describe(path, box) for path in sorted(folder.glob("*.ipynb"))]
    done = {(run["chapter"], run["box"]) for run in new}
    kept = [run for run in old if (run["chapter"], run["box"]) not in done]
    results.parent.mkdir(exist_ok=True)
    text = json.dumps(kept + new, ensure_ascii=False, indent=1)
    write_text_atomic(results, text + "\n")
    print(f"Recorded {len(new)} chapters on {box} in {results}")


def describe(path: Path, box: str) -> dict:
    """What, where, when and how long: one executed notebook."""
    cells = json.loads(path.read_text("utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    printed = ["".join(out.get("text", "")) for cell in code for out in cell["outputs"]]
    stamps = [
        datetime.fromisoformat(stamp)
        for cell in code
        for stamp in cell["metadata"].get("execution", {}).values()
    ]
    return {
        "chapter": path.stem,
        "box": box,
        **placement("\n".join([*("".join(cell["source"]) for cell in code), *printed])),
        "seconds": round((max(stamps) - min(stamps)).total_seconds(), 1),
        "torch": version("torch"),
        "python": sys.version.split()[0],
        "date": max(stamps).date().isoformat(),
        "command": "make test-gpu",
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
