"""A result says what, where, when and how; it is written whole, in one order."""

import datetime
import json
import platform

import pytest
import torch

from rankbook.core.results import Result, machine


def test_a_result_is_written_with_its_provenance_and_the_table_last(tmp_path):
    rows = [{"way": "über", "median": 1.5}]
    result = Result("seconds", rows, "python -m x", {"torch": "2"}, more={"kind": "CPU"})
    text = result.write(tmp_path / "x.json").read_text("utf-8")
    assert text.endswith("\n") and "über" in text and '\n "rows"' in text
    found = json.loads(text)
    names = ["what", "where", "python", "libraries", "when", "command", "kind", "rows"]
    assert list(found) == names and found["rows"] == rows
    assert found["python"] == platform.python_version()
    assert found["when"] == datetime.date.today().isoformat()
    assert found["where"] == machine()


def test_what_cannot_be_written_leaves_the_old_result(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("old")
    with pytest.raises(TypeError):
        Result("seconds", [{"x": object()}], "", {}).write(path)
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_machine_has_no_name():
    told = machine(torch.device("cpu"))
    assert told.endswith(platform.machine()) and " CPU cores, " in told
    assert platform.node() not in told
