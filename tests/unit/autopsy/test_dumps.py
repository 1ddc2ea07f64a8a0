"""Dumps that others wrote: both forms are read, and a pickle that would run code is not."""

import json
import os
import pickle

import pytest

from rankbook.autopsy.dumps import error_file, load_dump, members, rank_of
from rankbook.autopsy.flight import entries
from tests.unit.autopsy.made import nccl_dump


class Stranger:
    """What a pickle must not do: it would make a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("pack", [pickle.dumps, lambda dump: json.dumps(dump).encode()])
def test_both_forms_say_the_same(pack):
    dump = load_dump(pack(nccl_dump(3, "started")))
    [entry] = entries(dump)
    assert (entry.text, entry.number, entry.done) == ("all_reduce(float32 [4])", 3, False)
    assert entry.frames[0].line == 12
    assert members(dump) == {"0": [0, 1]}


def test_a_pickle_that_would_run_code_is_refused(tmp_path):
    made = tmp_path / "made"
    with pytest.raises(ValueError, match=r"no dump of the flight recorder: it names posix\.mkdir"):
        load_dump(pickle.dumps({"entries": [Stranger(made)]}))
    assert not made.exists()


@pytest.mark.parametrize("data", [b"", b"\x80\x04torn", b"{", b"[]", pickle.dumps({"a": 1})])
def test_what_is_no_dump_is_said(data):
    with pytest.raises(ValueError, match="no dump of the flight recorder"):
        load_dump(data)


@pytest.mark.parametrize(
    ("name", "rank"),
    [("nccl_trace_rank_12", 12), ("gloo_trace_3.json", 3), ("trace", None)],
)
def test_the_rank_is_in_the_name(tmp_path, name, rank):
    assert rank_of(tmp_path / name) == rank


def test_an_error_file_of_torchrun(tmp_path):
    folder = tmp_path / "attempt_0" / "1"
    folder.mkdir(parents=True)
    path = folder / "error.json"
    path.write_text(json.dumps({"message": {"message": "ValueError: no", "extraInfo": {}}}))
    assert error_file(path) == (1, "ValueError: no")
    path.write_text("{}")
    with pytest.raises(ValueError, match="no error file of torchrun"):
        error_file(path)
