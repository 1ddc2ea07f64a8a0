"""The command: deadlines, text and JSON, wrong usage, a Python without torch."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rankbook import __version__
from rankbook.__main__ import main
from rankbook.doctor import Examination, Options, as_json, as_text, examine
from rankbook.doctor.examination import found_within
from rankbook.doctor.finding import ok, problem, size, skipped, warning

SRC = Path(__file__).resolve().parents[3] / "src"


def test_what_hangs_is_a_problem_and_the_rest_goes_on():
    over = threading.Event()

    def hangs():
        yield ok("first", "Fine.")
        over.wait()

    found = found_within(hangs, 0.5)
    over.set()  # only now: nobody has waited for it
    assert [f.level for f in found] == ["ok", "problem"] and "Hung" in found[1].says


def test_no_time_left():
    examination = examine(Options(seconds=0), {"memory": 5})
    assert [f.name for _, f in examination.findings] == ["deadline"] and examination.problems


@pytest.mark.parametrize(("given", "each"), [(60, 5), (600, 50), (30, 5), (2, 2)])
def test_who_gives_the_doctor_more_than_a_minute_gives_each_check_more(monkeypatch, given, each):
    limits = []
    monkeypatch.setattr(
        "rankbook.doctor.examination.found_within", lambda _, seconds: limits.append(seconds) or []
    )
    examine(Options(seconds=given), {"memory": 5})
    assert limits == [pytest.approx(each, abs=0.5)]


def test_text_is_narrow_and_problems_come_last():
    found = [
        ("disk", problem("space", "Nothing is free here: " + "free some space, " * 9 + "please.")),
        ("network", warning("interface", "Several of them.")),
        ("round_trip", ok("gloo", "Works.", {"ranks": 2})),
        ("gpus", skipped("gpus", "None.")),
    ]
    examination = Examination(found, {"host": "n1", "time": "2026-01-02T03:04:05.678+00:00"}, 1.25)
    lines = as_text(examination).splitlines()
    assert lines[0] == "rankbook doctor on n1, 2026-01-02 03:04:05 UTC"
    assert lines[2] == "ok       round trip   Works." and max(map(len, lines)) <= 80
    levels = [line.split()[0] for line in lines[2:-2] if not line.startswith(" ")]
    assert levels == ["ok", "skipped", "warning", "problem"]
    assert lines[-1] == "1 problem, 1 warning, 1 skipped, 1 ok; 1.2 s"
    document = json.loads(as_json(examination))
    assert document["counts"] == {"ok": 1, "skipped": 1, "warning": 1, "problem": 1}
    assert document["findings"][2] == {
        **{"check": "round_trip", "level": "ok", "name": "gloo", "says": "Works."},
        "value": {"ranks": 2},
    }


@pytest.mark.parametrize("words", [[], ["doctor", "--port", "70000"], ["doctor", "--ranks", "0"]])
def test_wrong_usage(words, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2 and "error:" in capsys.readouterr().err


def test_a_python_without_torch(tmp_path):
    command = [sys.executable, "-S", "-m", "rankbook", "doctor", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    told = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=900
    )
    found = {(f["check"], f["name"]): f for f in json.loads(told.stdout)["findings"]}
    assert told.returncode == 1 and "has no torch" in found["versions", "torch"]["says"]
    assert found["round_trip", "import"]["level"] == "skipped"
    assert found["disk", "checkpoints"]["level"] == "ok"  # what needs no torch is looked at


def test_the_version_is_the_packages(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0 and capsys.readouterr().out == f"rankbook {__version__}\n"


def test_sizes():
    assert [size(n) for n in (12, 2048, 78.2e9, 3e12)] == ["12 bytes", "2.05 KB", "78.2 GB", "3 TB"]
