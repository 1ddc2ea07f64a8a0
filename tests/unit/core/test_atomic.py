"""A file is there whole or not at all."""

import os
import stat

import pytest

from rankbook.core.atomic import hand_over, write_atomic, write_text_atomic
from tests.unit.training.checkpoint.saving_faults import names


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
    write_atomic(tmp_path / "a", lambda file: file.write(b"five!"))
    assert calls == [("fsync", "file of 5 bytes"), ("replace", "a"), ("fsync", "folder")]


def test_writing_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    path = write_atomic(tmp_path / "a", lambda file: file.write(b"old"))

    def fail(file):
        file.write(b"new")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        write_atomic(path, fail)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_the_name_may_come_from_what_was_written(tmp_path):
    assert write_atomic(tmp_path / "a", lambda file: "b") == tmp_path / "b"
    assert names(tmp_path) == ["b"]


def test_readers_see_the_old_or_the_new_file_at_any_time(tmp_path):
    path = tmp_path / "a"
    write_atomic(path, lambda file: file.write(b"old"))

    def slowly(file):
        for byte in b"new":
            file.write(bytes([byte]))
            file.flush()
            assert path.read_bytes() == b"old"

    write_atomic(path, slowly)
    assert path.read_bytes() == b"new"


def test_text_is_utf_8_and_on_the_disk(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    path = write_text_atomic(tmp_path / "a", "é\n")
    assert path.read_bytes() == b"\xc3\xa9\n" and synced[0] == 3
    assert names(tmp_path) == ["a"]


def test_what_is_handed_over_appears_as_a_whole(tmp_path, monkeypatch):
    path, seen = tmp_path / "a", []
    replace = os.replace

    def look(source, target):
        seen.append(path.exists())
        replace(source, target)
        seen.append(path.read_text())

    monkeypatch.setattr(os, "replace", look)
    hand_over(path, "note")
    assert seen == [False, "note"] and names(tmp_path) == ["a"]
