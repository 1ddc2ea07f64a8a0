"""What is taken of an executed notebook for the recorded session."""

import json

import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from benchmarks import cluster_session as session
from benchmarks import record


def cell(source: str, *outputs, start: int = 0, end: int = 1):
    when = {
        "iopub.execute_input": f"2026-11-22T10:00:0{start}Z",
        "shell.execute_reply": f"2026-11-22T10:00:0{end}Z",
    }
    return new_code_cell(source, outputs=list(outputs), metadata={"execution": when})


def printed(text: str, name: str = "stdout"):
    return new_output("stream", name=name, text=text)


@pytest.fixture
def notebook():
    picture = {"text/plain": "<Figure>", "image/png": "..."}
    return new_notebook(
        cells=[
            cell(
                "%load_ext rankbook.magics.cluster\n%cluster start --setup gpus",
                printed("Slurm 22.05.8 on n1\n"),
            ),
            cell("%%cluster --on n1 queue\nsqueue\n", printed("JOBID\n"), printed("x", "stderr")),
            cell("plain = 1", printed("not recorded")),
            cell(
                "%%cluster --here proof\nplot(1)\n1",
                printed("1 step\n"),
                new_output("display_data", data=picture),
                new_output("execute_result", data={"text/plain": "1"}),
                start=2,
                end=5,
            ),
        ]
    )


def test_text_is_kept_under_the_cells_name(notebook, monkeypatch, tmp_path):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    parts = session.outputs(notebook), session.seconds(notebook), session._slurm(notebook)
    path = session.write("51_x", session.scripts(notebook), *parts)
    result = json.loads(path.read_text("utf-8"))
    assert result["cells"] == {
        "queue": {"script": "squeue\n", "output": "JOBID"},
        "proof": {"script": "plot(1)\n1", "output": "1 step\n1"},
    }
    assert result["rows"] == [{"cell": "queue", "seconds": 1.0}, {"cell": "proof", "seconds": 3.0}]
    assert result["slurm"] == "Slurm 22.05.8" and path.name == "cluster_session-51_x.json"


def test_a_name_is_one_cells_own(notebook):
    notebook.cells.append(cell("%%cluster queue\nsinfo"))
    with pytest.raises(ValueError, match="two cells are called 'queue'"):
        session.scripts(notebook)


def test_where_there_is_no_cluster_nothing_is_recorded(monkeypatch, capsys):
    monkeypatch.setattr(session, "why_not", lambda: "no root")
    monkeypatch.setattr("sys.argv", ["cluster_session"])
    with pytest.raises(SystemExit):
        session.main()
    assert "no cluster on this machine: no root" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["cluster_session", "99_none"])
    with pytest.raises(SystemExit):
        session.main()
    assert "no page 99_none with %%cluster cells" in capsys.readouterr().err
