"""The benchmark of imports: its command line, how it counts, and all of it on a small one."""

import json
import shutil

import pytest

from benchmarks import record, start_up

STRACE = """\
412 execve("/usr/bin/python", ["python"], 0x7ffd /* 30 vars */) = 0
412 openat(AT_FDCWD, "/lib/libc.so.6", O_RDONLY|O_CLOEXEC) = 3
412 newfstatat(AT_FDCWD, "/lib/libc.so.6", {st_mode=S_IFREG|0644}, 0) = 0
412 newfstatat(3, "", {st_mode=S_IFREG|0644}, AT_EMPTY_PATH) = 0
413 openat(AT_FDCWD, "/absent", O_RDONLY) = -1 ENOENT (No such file or directory)
413 +++ exited with 0 +++
"""


def test_calls_and_names_are_counted():
    assert start_up.count(STRACE.splitlines()) == {"opens": 3, "calls": 5, "names": 4}


def test_without_strace_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(SystemExit):
        start_up.main([])
    assert "strace is not installed" in capsys.readouterr().err


@pytest.mark.skipif(not shutil.which("strace"), reason="strace counts the calls: not installed")
def test_a_small_run(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(start_up, "PROGRAMS", ("nothing", "json"))
    monkeypatch.setattr(start_up, "environment_bytes", lambda: 1)
    start_up.main(["--repeats", "3"])
    (file,) = tmp_path.glob("start_up-cpu-*.json")
    nothing, json_ = json.loads(file.read_text())["rows"]
    assert 10 < nothing["opens"] < json_["opens"] < json_["calls"]
    assert 1 < nothing["read MB"] <= json_["read MB"] and json_["median"] > 0
