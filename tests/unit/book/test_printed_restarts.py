"""Each command line that a reader may copy: torchrun takes it, and a restart has its variable."""

import ast
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from torch.distributed.run import parse_args

ROOT = Path(__file__).resolve().parents[3]
VARIABLE = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
FENCE = re.compile(r"```(?:bash|sh|console)\n(.*?)```", re.DOTALL)
STARTS = re.compile(r"^(?:[A-Z_]+=\S* )*(?:torchrun|python -m torch\.distributed\.run) -")


def joined(text: str) -> list[str]:
    """The lines of a shell text, those that go on in the next one with it."""
    return [" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines()]


def blocks() -> list[tuple[str, list[str]]]:
    """Where shell text is printed, and its lines: in pages, in Markdown files, in docstrings."""
    found = []
    for path in sorted(ROOT.glob("chapters/*/*.ipynb")):
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            if cell["cell_type"] == "markdown":
                for block in FENCE.findall("".join(cell["source"])):
                    found.append((f"{path.parent.name}/{path.stem}#{cell['id']}", joined(block)))
    for path in [*ROOT.glob("*.md"), *ROOT.glob("launch/*.md"), *ROOT.glob("src/rankbook/*.md")]:
        found += [(path.name, joined(block)) for block in FENCE.findall(path.read_text("utf-8"))]
    for path in sorted(ROOT.glob("src/rankbook/**/*.py")):
        said = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        # in a docstring a line that goes on is one line already, with spaces in it
        found.append((str(path.relative_to(ROOT)), joined(said)))
    return [(place, lines) for place, lines in found if any(map(STARTS.match, lines))]


def without(lines: list[str]) -> list[str]:
    """Lines that start ranks again, in a block that does not set the variable before them."""
    exported, bad = False, []
    for line in lines:
        exported = exported or line.startswith(f"export {VARIABLE}")
        if STARTS.match(line) and "--max-restarts" in line and not exported:
            bad += [] if VARIABLE in line.split("torchrun")[0] else [line]
    return bad


@pytest.mark.parametrize(("place", "lines"), blocks(), ids=lambda each: str(each)[:60])
def test_a_printed_line_is_torchruns_and_a_restart_has_its_variable(place, lines):
    assert not without(lines), place
    for line in filter(STARTS.match, lines):
        words = shlex.split(line, comments=True)
        options = words[next(i for i, word in enumerate(words) if word.startswith("-")) :]
        if options[:2] == ["-m", "torch.distributed.run"]:
            options = options[2:]
        assert parse_args(options).training_script, line


def test_the_lines_that_start_ranks_again_are_all_found():
    restarts = {place for place, lines in blocks() if any("--max-restarts" in x for x in lines)}
    programs = {f"src/rankbook/programs/{name}.py" for name in (
        "elastic/__init__", "elastic/run", "retrofit/ddp_after", "retrofit/fsdp2_after",
        "retrofit/trainer_after")}  # fmt: skip
    pages = {f"{language}/{cell}" for language in ("en", "zh") for cell in (
        "41_elastic#who", "45_two_worlds#stays-text")}  # fmt: skip
    assert restarts >= programs | pages


def test_a_line_without_the_variable_would_be_found():
    line = "torchrun --nproc-per-node 2 --max-restarts 1 train.py"
    for wrong in ([line], [f"# {VARIABLE}", line], [line, f"export {VARIABLE}"]):
        assert without(wrong) == [line]
    assert not without([f"{VARIABLE} {line}"]) and not without([f"export {VARIABLE}  # so", line])


def test_a_plain_shell_hands_the_variable_to_the_agent(tmp_path):
    """Blocks that start ranks again are typed into bash, with a torchrun that says what it got."""
    says = tmp_path / "torchrun"
    says.write_text('#!/bin/bash\n[ -z "$1" ] || echo "$TORCH_DISABLE_SHARE_RDZV_TCP_STORE: $*"\n')
    says.chmod(0o755)
    plain = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    for place, lines in blocks():
        wanted = [line for line in lines if STARTS.match(line) and "--max-restarts" in line]
        if wanted:
            text = "\n".join(line for line in lines if line.startswith("export ") or line in wanted)
            got = subprocess.run(["bash", "-c", text], env=plain, capture_output=True, text=True)
            assert [line[:3] for line in got.stdout.splitlines()] == ["1: "] * len(wanted), place
