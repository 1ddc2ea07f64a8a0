"""What the benchmark of wrappings writes, of this torch and of another interpreter's."""

import json

import pytest

from benchmarks import wrappings

REPORT = {"torch": "2.9.1+cu130", "python": "3.11.7", "where": "2 CPU cores", "rows": [{"a": 1}]}


@pytest.mark.parametrize(
    ("given", "name", "command"),
    [
        ([], "wrappings-cpu-4.json", "python -m benchmarks.wrappings"),
        (
            ["--python", "/home/me/v29/bin/python"],
            "wrappings-torch-2.9.json",
            "python -m benchmarks.wrappings --python PYTHON",
        ),
    ],
)
def test_the_file_names_the_torch_and_no_place(given, name, command, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(wrappings, "tried", lambda python: asked.append(python) or REPORT)
    monkeypatch.setattr(wrappings, "RESULTS", tmp_path)
    path = wrappings.main(given)
    assert path == tmp_path / name and "/home" not in path.read_text("utf-8")
    assert asked == [given[1] if given else wrappings.sys.executable]
    result = json.loads(path.read_text("utf-8"))
    assert result["command"] == command and result["kind"] == "CPU"
    assert result["libraries"] == {"torch": "2.9.1+cu130"} and result["python"] == "3.11.7"
    assert result["rows"] == [{"a": 1}]
