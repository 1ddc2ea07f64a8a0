"""The order of search, what is said of it, and the errors for damaged folders."""

import pytest

from rankbook.data import distilbert_tokenizer, imdb, sources, wikitext2
from rankbook.data.sources import Absent, local_files, search


def absent(reason):
    def find():
        raise Absent(reason)

    return find


def test_first_finder_with_the_data_wins_and_the_line_says_why(capsys):
    asked = []

    def never():
        asked.append(1)

    found = search("X", absent("no folder"), absent("no hub"), lambda: (5, "made here"), never)
    assert found == (5, "X: made here (no folder; no hub)")
    assert asked == []
    assert capsys.readouterr().out == "X: made here (no folder; no hub)\n"


def test_found_nowhere_is_an_error():
    with pytest.raises(LookupError, match="X was found nowhere: no folder; no hub"):
        search("X", absent("no folder"), absent("no hub"))


def test_damage_ends_the_search():
    def damaged():
        raise ValueError("wrong checksum")

    with pytest.raises(ValueError, match="wrong checksum"):
        search("X", damaged, lambda: pytest.fail("the search went on after an error"))


@pytest.mark.parametrize(("rank", "lines"), [(None, 1), ("0", 1), ("1", 0), ("3", 0)])
def test_line_is_printed_once_a_process_and_by_rank_0(small_data, monkeypatch, capsys, rank, lines):
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
    first, second = wikitext2(), wikitext2()
    assert first.source == second.source == "WikiText-2: the files of $RANKBOOK_DATA/wikitext-2"
    assert capsys.readouterr().out == f"{first.source}\n" * lines


@pytest.mark.parametrize("missing", ["train.txt", "valid.txt", "test.txt"])
def test_half_present_folder(small_data, missing):
    (small_data / "wikitext-2" / missing).unlink()
    with pytest.raises(FileNotFoundError) as error:
        wikitext2()
    assert str(error.value) == (
        f"{small_data}/wikitext-2 is half-present: {missing} not there; copy the whole folder "
        "again, or unset RANKBOOK_DATA to use another source."
    )


def test_wrong_checksum(small_data):
    path = small_data / "wikitext-2/train.txt"
    path.write_text(path.read_text() + "x")
    with pytest.raises(ValueError) as error:
        wikitext2()
    message = str(error.value)
    assert message.startswith(f"{path} is not the file this book was tested with: its SHA-256")
    assert message.endswith("copy it again, or unset RANKBOOK_DATA.")


@pytest.mark.parametrize("call", [wikitext2, imdb, distilbert_tokenizer])
def test_empty_files_are_wrong_files(tmp_path, monkeypatch, call):
    for name in sources.SHA256:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv("RANKBOOK_DATA", str(tmp_path))
    with pytest.raises(ValueError, match="is not the file this book was tested with"):
        call()


@pytest.mark.parametrize("make", [False, True])
@pytest.mark.parametrize("call", [wikitext2, imdb, distilbert_tokenizer])
def test_mistyped_data_folder(tmp_path, monkeypatch, call, make):
    if make:
        (tmp_path / "typo").mkdir()
    monkeypatch.setenv("RANKBOOK_DATA", str(tmp_path / "typo"))
    with pytest.raises(FileNotFoundError) as error:
        call()
    problem = "which holds none of" if make else "which is no folder"
    assert f"RANKBOOK_DATA names {tmp_path}/typo, {problem}" in str(error.value)


def test_unset_empty_and_other_folder_let_the_search_go_on(small_data, monkeypatch):
    with pytest.raises(Absent, match=r"\$RANKBOOK_DATA has no folder imdb"):
        local_files("imdb")
    for value in ("", None):
        monkeypatch.setenv("RANKBOOK_DATA", value) if value == "" else monkeypatch.delenv(
            "RANKBOOK_DATA"
        )
        with pytest.raises(Absent, match=r"\$RANKBOOK_DATA is not set"):
            local_files("wikitext-2")


def test_relative_folder_is_named_in_full(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RANKBOOK_DATA", "../nowhere")
    with pytest.raises(FileNotFoundError, match=str(tmp_path)):
        local_files("imdb")


@pytest.mark.parametrize(
    ("folder", "files"),
    [("wikitext-2", 3), ("imdb", 1), ("distilbert-vocab", 1)],
)
def test_real_files_have_the_expected_checksums(real_data, folder, files):
    real_data(folder)
    assert len(local_files(folder)[0]) == files
