"""The driver without a job: what it does where something cannot be injected."""

import contextlib
import os

import pytest

from rankbook.live.torchrun.session import Torchrun
from rankbook.testbed.faults import CannotInject, CannotMount, Driver, draw_plan
from rankbook.testbed.faults.__main__ import main

SEED = 9  # fills a disk


@pytest.fixture
def no_mount(tmp_path, monkeypatch):
    (tmp_path / "mount").write_text("#!/bin/sh\necho 'must be superuser' >&2; exit 1\n")
    (tmp_path / "mount").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


def test_nothing_is_left_where_no_disk_can_be_mounted(no_mount, tmp_path):
    assert "disk_full" in draw_plan(SEED).kinds
    with contextlib.closing(Torchrun()) as torchrun, pytest.raises(CannotMount):
        Driver(torchrun, tmp_path / "runs").run(draw_plan(SEED))
    assert not list((tmp_path / "runs").iterdir())


def test_a_skipped_seed_is_said(no_mount, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # main sets it: this sets it back
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert main(["--seed", str(SEED)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"seed {SEED}: skipped: must be superuser",
        "something was lost in 0 of 0 runs",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["mount"]


@pytest.mark.parametrize("seed", [200, 203])  # a cable, and a clock
def test_a_plain_session_has_neither_clocks_nor_cables(seed, tmp_path):
    with (
        contextlib.closing(Torchrun()) as torchrun,
        pytest.raises(CannotInject, match=r"needs Machines\(\) for a Torchrun\(\)"),
    ):
        Driver(torchrun, tmp_path / "runs").run(draw_plan(seed))
    assert not list((tmp_path / "runs").iterdir())


def test_wrong_options(capsys):
    with pytest.raises(SystemExit):
        main(["--seed", "1", "--seeds", "2"])
    assert "not allowed with argument" in capsys.readouterr().err
