"""Run the parts that are not done, one process each, and say of each how it ended."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks import record
from benchmarks.gpu.parts import MORE, Part, parts
from rankbook.core.atomic import write_text_atomic

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str] | None = None) -> int:
    """Do what the options say; 1 if a part failed, 75 if there is more to do, 0 if all is done."""
    options = parse(arguments)
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) if options.rehearse else record.RESULTS
        state = State(results / "gpu-parts.json")
        chosen = [
            p for p in parts(options.rehearse, str(results)) if options.part in (None, p.name)
        ]
        if options.list:
            for part in chosen:
                print(f"{part.name:10} {state.said(part):13} {part.about}")
            return 0
        for part in chosen:
            if state.said(part) != "done" or options.part:
                state.note(part, run(part))
        ends = {state.said(part) for part in chosen}
    return 0 if ends == {"done"} else 1 if "failed" in ends else MORE


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The command line; what it cannot mean ends the program with one sentence."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description="Measure on a GPU, part by part."
    )
    names = [part.name for part in parts(False, "")]
    parser.add_argument("--list", action="store_true", help="the parts; run nothing")
    parser.add_argument("--part", choices=names, help="this one only, whether or not it is done")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU, tiny, kept nowhere")
    options = parser.parse_args(arguments)
    if not (options.list or options.rehearse or torch.cuda.is_available()):
        parser.error("torch sees no GPU here; --rehearse tries the programs on the CPU")
    return options


class State:
    """How far each part is, in a file beside the results."""

    def __init__(self, path: Path):
        self.path = path
        self.parts = json.loads(path.read_text("utf-8")) if path.exists() else {}

    def said(self, part: Part) -> str:
        """ "done", "more to do", "failed", or "not yet"."""
        return self.parts.get(part.name, {}).get("state", "not yet")

    def note(self, part: Part, ended: dict) -> None:
        """Keep how it ended, and say so."""
        self.parts[part.name] = ended
        text = json.dumps(self.parts, indent=1, ensure_ascii=False)
        write_text_atomic(self.path, text + "\n")
        print(f"== {part.name}: {ended['state']} after {ended['seconds']} s", flush=True)


def run(part: Part) -> dict:
    """Run the part, and end it if it takes longer than its minutes; what became of it."""
    print(f"== {part.name}: {part.about} (at most {part.minutes:g} minutes)", flush=True)
    start = time.perf_counter()
    path = os.pathsep.join(filter(None, ["src", os.environ.get("PYTHONPATH")]))
    try:
        status = subprocess.run(
            [sys.executable, "-m", part.module, *part.arguments],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
            timeout=60 * part.minutes,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        status = MORE  # what it has measured is written
    states = {0: "done", MORE: "more to do"}
    return {
        "state": states.get(status, "failed"),
        "status": status,
        "seconds": round(time.perf_counter() - start, 1),
    }


if __name__ == "__main__":
    sys.exit(main())
