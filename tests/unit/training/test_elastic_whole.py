"""A file is there whole or not at all."""

import os
import stat

import pytest

from rankbook.training.elastic import write_whole
from tests.unit.training.elastic_faults import names


def test_the_contents_are_on_the_disk_before_the_name(tmp_path, monkeypatch):
    calls = []

    def recorded(name, real, told):
        def call(*args, **options):
            calls.append((name, told(*args)))
            return real(*args, **options)

        monkeypatch.setattr(os, name, call)

    def kind(descriptor):
        about = os.fstat(descriptor)
        return "folder" if stat.S_ISDIR(about.st_mode) else f"file of {about.st_size} bytes"

    recorded("fsync", os.fsync, kind)
    recorded("replace", os.replace, lambda source, target: target.name)
    write_whole(tmp_path / "a", lambda file: file.write(b"five!") and None)
    assert calls == [("fsync", "file of 5 bytes"), ("replace", "a"), ("fsync", "folder")]


def test_writing_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = write_whole(tmp_path / "a", lambda file: file.write(b"old") and None)

    def fail(file):
        file.write(b"new")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        write_whole(path, fail)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_the_name_may_come_from_what_was_written(tmp_path):
    assert write_whole(tmp_path / "a", lambda file: "b") == tmp_path / "b"
    assert names(tmp_path) == ["b"]


def test_readers_see_the_old_or_the_new_file_at_any_time(tmp_path):
    path = tmp_path / "a"
    write_whole(path, lambda file: file.write(b"old") and None)

    def slowly(file):
        for byte in b"new":
            file.write(bytes([byte]))
            file.flush()
            assert path.read_bytes() == b"old"

    write_whole(path, slowly)
    assert path.read_bytes() == b"new"
