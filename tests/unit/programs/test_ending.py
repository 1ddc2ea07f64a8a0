"""How a rank of a program ends: one sentence for its user, said once, and a status."""

import json
import multiprocessing
import sys
from pathlib import Path

import pytest

from rankbook.programs import ending
from rankbook.programs.options import world_size_from_env
from tests.waiting import SOON

GONE = "[/x/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:4711. This is"


@pytest.fixture
def pauses(monkeypatch):
    """The seconds that a rank gives rank 0; nobody waits for them here."""
    found: list[float] = []
    monkeypatch.setattr(ending.time, "sleep", found.append)
    for name in ("RANK", "LOCAL_RANK", "TORCHELASTIC_ERROR_FILE"):
        monkeypatch.delenv(name, raising=False)
    return found


def ended(error: Exception, folder: Path, *kinds: type[Exception]) -> tuple[int | None, str]:
    """The exit code of a process in which a program raises `error`, and what it says."""

    def work() -> None:
        with (folder / "said").open("w") as sys.stderr, ending.exit_on_user_error("speed", *kinds):
            raise error

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(SOON)
    return child.exitcode, (folder / "said").read_text("utf-8")


@pytest.mark.parametrize(
    ("error", "kinds", "code", "said"),
    [
        (ValueError("--batch 3 is odd"), (), 2, "speed: --batch 3 is odd\n"),
        (ImportError("no torchdata"), (), 2, "speed: no torchdata\n"),
        (OSError("no space"), (OSError,), 2, "speed: no space\n"),
        (RuntimeError(GONE), (), 1, "speed, rank 0: lost another rank: Connection closed by peer"),
        (ValueError("a mistake of ours"), (OSError,), 1, ""),
        (RuntimeError("a mistake of ours"), (), 1, ""),
    ],
)
def test_what_a_user_can_mend_is_one_sentence_and_else_a_traceback(
    pauses, tmp_path, error, kinds, code, said
):
    status, text = ended(error, tmp_path, *kinds)
    assert status == code
    assert text.startswith(said) and "Traceback" not in text  # that is Python's own, later
    assert len(text.splitlines()) == bool(said) + ("Connection" in said)  # where the book has more


def test_a_report_ends_with_its_entry_in_the_book(pauses, tmp_path):
    _, text = ended(RuntimeError(GONE), tmp_path)
    assert text.splitlines()[1:] == [
        "More on this: rankbook symptom peer-closed (symptoms.html#peer-closed)"
    ]


@pytest.mark.parametrize(
    ("rank", "local_rank", "waits"), [("0", "0", 0), ("8", "0", 1), ("3", "3", 1)]
)
@pytest.mark.parametrize("error", [ValueError("x"), RuntimeError("x"), RuntimeError(GONE)])
def test_others_give_rank_0_the_time_to_speak(
    pauses, monkeypatch, rank, local_rank, waits, error, capsys
):
    class Left(BaseException):
        pass

    def leave(status: int) -> None:
        raise Left

    monkeypatch.setattr(ending.os, "_exit", leave)
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("LOCAL_RANK", local_rank)
    with pytest.raises((Left, RuntimeError)), ending.exit_on_user_error("speed"):
        raise error
    assert len(pauses) == waits
    said = capsys.readouterr().err
    if rank != "0" and said:
        assert said.startswith(f"speed, rank {rank}: ")


def test_the_first_of_a_node_speaks_before_its_others(pauses, monkeypatch):
    monkeypatch.setenv("RANK", "9")
    for local_rank in ("0", "1"):
        monkeypatch.setenv("LOCAL_RANK", local_rank)
        ending.give_rank_0_time()
    assert pauses[0] < pauses[1]


def test_a_restart_that_fails_of_the_same_is_silent(pauses, monkeypatch, tmp_path):
    said = []
    for attempt, sentence in enumerate(["wrong", "wrong", "worse", "wrong"]):
        file = tmp_path / f"attempt_{attempt}" / "0" / "error.json"
        file.parent.mkdir(parents=True)
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
        status, text = ended(ValueError(sentence), tmp_path)
        assert status == 2
        assert json.loads(file.read_text())["message"]["message"] == sentence
        said.append(text)
    assert said == ["speed: wrong\n", "", "speed: worse\n", "speed: wrong\n"]


def test_a_damaged_word_of_the_attempt_before_does_not_matter(pauses, monkeypatch, tmp_path):
    for attempt in (0, 1):
        (tmp_path / f"attempt_{attempt}" / "0").mkdir(parents=True)
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "attempt_1" / "0" / "error.json"))
    for text in ("", "[]", '{"message": "wrong"}'):
        (tmp_path / "attempt_0" / "0" / "error.json").write_text(text)
        assert ended(ValueError("wrong"), tmp_path)[1] == "speed: wrong\n"


def test_ranks_are_torchruns(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert world_size_from_env("torchrun it") == 4
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(ValueError, match="no process group is described here; start it with torch"):
        world_size_from_env("torchrun it")
