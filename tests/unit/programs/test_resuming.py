"""A folder holds one run, and it goes on by the options that it was begun with."""

import json
from pathlib import Path

import pytest

from rankbook.programs.resuming import open_run

OPTIONS = {"lr": 0.5, "warm_up": 10, "model": None, "train_file": Path("a.txt")}


def test_a_run_is_begun_and_gone_on_with(tmp_path):
    folder = tmp_path / "a" / "b"
    open_run(folder, OPTIONS, resume=False)
    kept = json.loads((folder / "run.json").read_text())
    assert kept == OPTIONS | {"train_file": "a.txt"}
    open_run(folder, OPTIONS, resume=True)
    assert [path.name for path in folder.iterdir()] == ["run.json"]


@pytest.mark.parametrize(
    ("options", "resume", "sentence"),
    [
        (OPTIONS, False, "holds a run; go on with it by --resume, or name another folder"),
        (OPTIONS | {"lr": 1.0}, True, r"--lr is 1\.0, but the run in .* has 0\.5; give the same"),
        (OPTIONS | {"warm_up": 2}, True, "--warm-up is 2, but"),
        (OPTIONS | {"new": 1}, True, "--new is 1, but the run in .* has none; give the same"),
        (OPTIONS | {"lr": None}, True, r"--lr is not given, but the run in .* has 0\.5; give"),
    ],
)
def test_what_would_mix_two_runs_is_refused(tmp_path, options, resume, sentence):
    open_run(tmp_path, OPTIONS, resume=False)
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(ValueError, match=sentence) as told:
        open_run(tmp_path, options, resume)
    assert "\n" not in str(told.value) and (tmp_path / "run.json").read_bytes() == before


@pytest.mark.parametrize("text", ["", '{"lr": 0.5', "[1]", "\x00\x01", b"\xff\xfe"])
def test_a_damaged_file_of_options_is_named(tmp_path, text):
    open_run(tmp_path, OPTIONS, resume=False)
    about = tmp_path / "run.json"
    about.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = about.read_bytes()
    with pytest.raises(ValueError) as told:
        open_run(tmp_path, OPTIONS, resume=True)
    said = str(told.value)
    assert said.startswith(f"{about} does not hold the options of a run, as JSON")
    assert said.endswith("bring it back from a copy, or begin a new run in another folder")
    assert "\n" not in said and about.read_bytes() == before


def test_a_file_is_no_folder_for_a_run(tmp_path):
    (tmp_path / "file").write_text("")
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"--checkpoint .*/file is a file; name a folder"):
            open_run(tmp_path / "file", OPTIONS, resume)
    with pytest.raises(OSError, match=r"no run can be kept in .*/file/run: not a directory; name"):
        open_run(tmp_path / "file" / "run", OPTIONS, resume=False)


def test_there_has_to_be_a_run_to_resume(tmp_path):
    with pytest.raises(ValueError, match="holds no run to resume; leave out --resume to begin one"):
        open_run(tmp_path / "none", OPTIONS, resume=True)
    assert not (tmp_path / "none").exists()
