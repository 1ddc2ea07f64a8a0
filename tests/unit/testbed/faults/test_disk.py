"""A small disk is full when it was filled, and gone when it is not needed."""

import errno
import os

import pytest

from rankbook.testbed.faults.disk import CannotMount, SmallDisk


def test_it_is_full_and_has_room_again(tmp_path):
    folder = tmp_path / "disk"
    try:
        with SmallDisk(folder) as disk:
            disk.fill()
            with pytest.raises(OSError) as full:
                (folder / "more").write_bytes(bytes(100))
            assert full.value.errno == errno.ENOSPC
            disk.free()
            (folder / "more").write_bytes(bytes(100))
            with (folder / "more").open("rb"):  # a file in use does not keep it
                pass
    except CannotMount as error:
        pytest.skip(f"this process may mount nothing: {error}")
    assert not os.path.ismount(folder) and not list(folder.iterdir())


def test_what_mount_says(tmp_path, monkeypatch):
    (tmp_path / "mount").write_text("#!/bin/sh\necho 'must be superuser' >&2; exit 1\n")
    (tmp_path / "mount").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(CannotMount, match=r"^must be superuser$"), SmallDisk(tmp_path / "disk"):
        pass
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(CannotMount, match="no mount command"), SmallDisk(tmp_path / "other"):
        pass
