"""What a program says: on a terminal, in a file of output, in a log."""

import io
import json
from pathlib import Path

from rankbook.programs.report import Log, Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_on_a_terminal_is_one_line():
    out = Terminal()
    bar = Progress(10, 20, out=out)
    for step in range(11, 21):
        bar.update(step, f"loss {step}.0")
    shown = out.getvalue().split("\r")
    assert len(shown) == 11 and "\n" not in out.getvalue()
    assert shown[5].startswith("[##########          ] 15/20  loss 15.0  0 s left")


def test_elsewhere_it_is_a_line_at_each_tenth():
    out = io.StringIO()
    bar = Progress(0, 95, out=out)
    for step in range(1, 96):
        bar.update(step, "")
    lines = out.getvalue().splitlines()
    assert len(lines) == 10 and lines[-1].startswith("[####################] 95/95")


def test_a_silent_one_shows_nothing(capsys):
    out = io.StringIO()
    bar = Progress(0, 1, silent=True, out=out)
    bar.update(1, "")
    bar.say("text")
    assert out.getvalue() == capsys.readouterr().out == ""


def test_a_log_is_appended_to(tmp_path):
    path = tmp_path / "new" / "log.jsonl"
    Log(path).write(step=1, path=Path("a"))
    Log(path).write(step=2)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"step": 1, "path": "a"},
        {"step": 2},
    ]
    Log(None).write(step=1)


def test_a_run_that_diverges_leaves_a_log_that_can_be_read(tmp_path):
    path = tmp_path / "log.jsonl"
    Log(path).write(step=1, loss=float("nan"), norm=float("inf"), lr=1e30)
    read = json.loads(path.read_text(), parse_constant=lambda name: f"not JSON: {name}")
    assert read == {"step": 1, "loss": None, "norm": None, "lr": 1e30}
