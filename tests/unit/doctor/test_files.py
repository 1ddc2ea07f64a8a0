"""Disk, data and clocks: full, missing, wrong."""

import threading
import time
from pathlib import Path

import pytest

from rankbook.doctor import all_nodes, clock, data, disk
from rankbook.doctor.finding import Options
from rankbook.testbed.faults.disk import CannotMount, SmallDisk
from tests.waiting import SOON

OFF = 20_000.0  # seconds between two clocks: more than any test takes


def test_a_full_disk(tmp_path):
    try:
        with SmallDisk(tmp_path / "disk") as small:
            found = {f.name: f for f in disk.findings(Options(checkpoints=small.folder))}
            assert not list(small.folder.iterdir())
    except CannotMount as error:
        pytest.skip(f"this process may mount nothing: {error}")
    assert found["checkpoints"].level == "problem"
    assert "No space left on device" in found["checkpoints"].says
    assert found["space"].level == "problem"
    assert found["place"].level == "warning" and "tmpfs" in found["place"].says


def test_a_good_disk_is_left_as_it_was(tmp_path):
    written = disk.written(tmp_path)
    assert written.level == "ok" and written.value["bytes_per_second"] > 0
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_not_made(tmp_path):
    options = Options(checkpoints=tmp_path / "a" / "b")
    assert next(disk.findings(options)).level == "warning"
    assert disk.lasting(options.checkpoints) == tmp_path and not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["file", "file/of/it"])
def test_a_file_is_no_folder(tmp_path, name):
    (tmp_path / "file").write_text("")
    found, *_ = disk.findings(Options(checkpoints=tmp_path / name))
    assert (found.level, found.name) == ("problem", "folder")
    assert found.says == (
        f"{tmp_path}/file is a file, and checkpoints need a folder: what follows is about "
        f"{tmp_path}; name another."
    )


def test_who_sees_the_folder(tmp_path):
    assert disk.kind_of(Path("/proc")) == "proc"
    assert disk.place(tmp_path, "ext4", 1).level == "ok"
    assert disk.place(tmp_path, "ext4", 2).level == "warning"
    assert disk.place(tmp_path, "nfs4", 2).level == "ok"


def test_data_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKBOOK_DATA", str(tmp_path))
    (found,) = data.findings(Options())  # none of it: a wrong path, said once
    assert found.level == "problem"
    (tmp_path / "imdb").mkdir()
    found = {f.value: f for f in data.findings(Options())}
    assert found["imdb"].level == "problem" and "half-present" in found["imdb"].says
    assert found["wikitext-2"].level == "warning"
    monkeypatch.delenv("RANKBOOK_DATA")
    assert [f.level for f in data.findings(Options())] == ["warning"]


def test_the_clock_of_the_files(tmp_path):
    ahead, error = clock.file_skew(tmp_path)
    assert abs(ahead) <= error  # the same clock
    assert clock.against_files(ahead, error, "ext4").level == "skipped"
    assert clock.against_files(0.1, 0.2, "nfs4").level == "ok"
    assert clock.against_files(-3.0, 0.1, "nfs4").level == "warning"
    late = clock.against_files(20.0, 0.1, "nfs4")
    assert late.level == "problem" and "20.0 s ahead of" in late.says


def test_who_sets_the_clock():
    assert isinstance(clock.kernel_status(), int)
    assert clock.synchronised(0x2001).level == "ok"
    assert clock.synchronised(0x40).level == "warning"


def test_nodes_meet_and_compare_clocks(tmp_path):
    """Three of them, of which one lives hours in the future."""
    clocks = {}

    def node(name: str, off: float) -> None:
        folder = tmp_path / ".meeting"
        clocks[name] = all_nodes.meet(folder, name, 3, SOON, now=lambda: time.time() + off)

    threads = [threading.Thread(target=node, args=(f"n{i}", OFF * (i == 3))) for i in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * SOON)
    assert not list(tmp_path.iterdir())
    assert abs(clocks["n1"]["n2"].ahead) <= clocks["n1"]["n2"].error < OFF / 2
    assert abs(clocks["n1"]["n3"].ahead + OFF) <= clocks["n1"]["n3"].error < OFF / 2
    assert abs(clocks["n3"]["n2"].ahead - OFF) <= clocks["n3"]["n2"].error
    shared, far = all_nodes.met(tmp_path, clocks["n1"], 3, SOON)
    assert shared.level == "ok" and far.level == "problem"
    assert f"n3's are {-clocks['n1']['n3'].ahead:.2f} s apart" in far.says


def test_a_node_that_nobody_meets(tmp_path):
    folder = tmp_path / ".meeting"
    assert all_nodes.meet(folder, "n1", 2, 0.2) == {} and not folder.exists()
    (alone,) = all_nodes.met(tmp_path, {}, 2, 0.2)
    assert alone.level == "problem" and "0 of 1 other nodes" in alone.says
