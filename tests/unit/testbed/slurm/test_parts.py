"""What needs no cluster: whether there can be one, a job's environment, the magics without one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rankbook.live.errors import UsageError
from rankbook.magics.cluster import ClusterMagics, ScriptScreen
from rankbook.testbed import recorded_cells as recorded
from rankbook.testbed.slurm import possible
from rankbook.testbed.slurm.environment import ROOT, environment


@pytest.fixture
def none(monkeypatch, tmp_path):
    """Magics on a machine that can have no cluster; recordings are looked for in `tmp_path`."""
    monkeypatch.setenv("RANKBOOK_NO_CLUSTER", "1")
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    monkeypatch.setattr(ClusterMagics, "running", None)
    monkeypatch.setattr(ClusterMagics, "skipped", 0)
    return ClusterMagics()


def test_what_is_missing_is_named_with_its_package(monkeypatch):
    monkeypatch.delenv("RANKBOOK_NO_CLUSTER", raising=False)
    which = lambda command, path: None if command in ("slurmd", "munged") else command  # noqa: E731
    monkeypatch.setattr(possible.shutil, "which", which)
    said = "slurmd, munged not found (Debian and Ubuntu: the packages slurm-wlm munge)"
    assert possible.why_not() == said


def test_root_is_needed(monkeypatch):
    monkeypatch.delenv("RANKBOOK_NO_CLUSTER", raising=False)
    monkeypatch.setattr(possible.shutil, "which", lambda command, path: command)
    monkeypatch.setattr(possible.os, "geteuid", lambda: 1000)
    assert possible.why_not() == "hosts made of namespaces need root"


def test_a_kernel_that_permits_none_is_quoted(monkeypatch):
    ended = subprocess.CompletedProcess([], 1, "", "Operation not permitted\n")
    monkeypatch.setattr(possible.subprocess, "run", lambda *words, **more: ended)
    said = "this kernel permits no hosts made of namespaces: Operation not permitted"
    assert possible._refused.__wrapped__() == said


def test_a_job_has_the_callers_environment_and_this_projects_python(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    found = environment(Path("/x/slurm.conf"), Path("/x/shared"))
    assert found["PYTHONPATH"] == f"{ROOT}/src:/theirs"
    assert found["PATH"].split(":")[0] == str(Path(sys.executable).parent)
    assert found["OMP_NUM_THREADS"] == "3" and found["HOME"] == os.environ["HOME"]
    ours = {name: value for name, value in found.items() if name.startswith(("SLURM_", "SBATCH_"))}
    assert ours == {
        "SLURM_CONF": "/x/slurm.conf",
        "SBATCH_OUTPUT": "/x/shared/slurm-%j.out",
    }


def test_paths_are_named_also_where_a_line_comes_in_pieces(capsys):
    page = ScriptScreen({"/x/shared": "$SHARED", "/checkout/": ""})
    for piece in ("in /x/sh", "ared/a and", " /checkout/launch\nlast"):
        page.show(piece)
    assert capsys.readouterr().out == "in $SHARED/a and launch\n"
    page.close()
    page.close()
    assert capsys.readouterr().out == "last\n"


def test_a_cell_shows_what_was_recorded_and_says_so(none, tmp_path, capsys):
    cells = {"queue": {"script": "squeue\n", "output": "JOBID"}}
    run = {"where": "2 CPU cores", "slurm": "Slurm 22.05.8", "when": "2026-11-22", "cells": cells}
    other = {**run, "cells": {"sinfo": {"script": "sinfo", "output": "idle"}}}
    for page, result in (("51_one", run), ("52_two", other)):
        (tmp_path / f"cluster_session-{page}.json").write_text(json.dumps(result))
    none.cluster("start")
    none.cluster("queue", "squeue ")
    none.cluster("--here queue", "assert False")
    none.cluster("sinfo", "sinfo")  # of another page
    none.cluster("--on n1 other", "hostname")
    none.cluster("stop")
    why = "switched off by RANKBOOK_NO_CLUSTER"
    assert capsys.readouterr().out.splitlines() == [
        f"No cluster here: {why}. Cells that need it show what a recorded run said.",
        "[skipped here; recorded 2026-11-22]",
        "JOBID",
        "[skipped here; recorded 2026-11-22, by another version of this cell]",
        "JOBID",
        "[skipped here; recorded 2026-11-22]",
        "idle",
        "[skipped here; nothing is recorded under the name other]",
        "Cells skipped for want of a cluster: 4",
    ]


def test_without_any_recording_a_cell_says_that(none, capsys):
    none.cluster("queue", "squeue")
    assert "nothing is recorded under the name queue" in capsys.readouterr().out


def test_mistakes_are_told_also_without_a_cluster(none):
    with pytest.raises(UsageError, match="unrecognized arguments: b"):
        none.cluster("a b", "squeue")
    with pytest.raises(UsageError, match="No closing quotation"):
        none.cluster("'a", "squeue")
