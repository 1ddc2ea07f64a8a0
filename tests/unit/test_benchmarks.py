"""What holds for all benchmarks: their page, their result files, and what their options refuse."""

import importlib
import json
import re
from pathlib import Path

import pytest
import torch

from benchmarks.readme import MAGICS, README, _side_by_side, magics, text
from benchmarks.record import RESULTS, program, summary

FILES = [f for f in sorted(RESULTS.glob("*.json")) if f.stem != "chapters"]


def test_the_page_is_made_from_the_results():
    assert FILES, f"no result in {RESULTS}: the tests below would see nothing"
    assert README.read_text(encoding="utf-8") == text(), "run: python -m benchmarks.readme"


@pytest.mark.parametrize("language", MAGICS)
def test_the_table_of_the_rivals_is_made_from_their_result(language):
    page = MAGICS[language].read_text("utf-8")
    assert "| `%%ranks` |" in page, "no table: the marks are gone"
    assert page == magics(language), "run: python -m benchmarks.readme"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_result_says_what_where_when_and_how(file):
    result = json.loads(file.read_text(encoding="utf-8"))
    assert all(result[key] for key in ("what", "where", "libraries", "when", "command", "rows"))
    assert "/" not in result["where"]
    timed = [row for row in result["rows"] if "median" in row]
    assert all(row["p10"] <= row["median"] <= row["p90"] for row in timed)


def test_the_summary_of_times():
    assert summary([0.001 * n for n in range(1, 12)]) == {
        "repeats": 11,
        "median": 6.0,
        "p10": 2.0,
        "p90": 10.0,
    }


def test_ways_that_took_turns_stand_side_by_side():
    times = {"repeats": 9, "median": 2.5, "p10": 2, "p90": 3, "predicted": 4}
    rows = [{"ranks": n, "way": way} | times for n in (2, 3) for way in ("ring", "library")]
    cell = "**2.5** (2 to 3)"
    assert _side_by_side(rows, None) == rows
    assert _side_by_side(rows, "way") == [
        {"ranks": n, "repeats": 9, "ring": cell, "library": cell} for n in (2, 3)
    ]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("benchmarks/saving.py", "benchmarks.saving"),
        ("benchmarks/gpu/memory.py", "benchmarks.gpu.memory"),
        ("elsewhere/pytest", "benchmarks.pytest"),
    ],
)
def test_a_result_names_the_program_that_makes_it_again(file, name):
    assert program(Path("/srv/book") / file) == name


FOLDER = README.parent
GPU = {f"gpu.{path.stem}" for path in (FOLDER / "gpu").glob("*.py")}  # the list of parts runs them


def programs() -> dict[str, str]:
    """Every program's name and text, without those that only the GPU's list of parts runs."""
    texts = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.py"))}
    folders = {path.parent.name: path.read_text("utf-8") for path in FOLDER.glob("*/__main__.py")}
    return folders | {n: text for n, text in texts.items() if '__name__ == "__main__"' in text}


def test_every_program_says_how_it_is_run():
    silent = {name for name, text in programs().items() if f"-m benchmarks.{name}" not in text}
    assert not silent


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_recorded_command_is_a_program(file):
    command = json.loads(file.read_text("utf-8"))["command"]
    found = re.search(r"-m benchmarks\.([\w.]+)", command)
    assert not found or found[1] in programs().keys() | GPU, command


# Options of whatever else a program insists on, so that it comes to its repeats.
REPEATS = {"finetune": "--keep x", "live": "cells", "one_controller": "faults"}
CALLED = {"soak": "--seeds"}
OWN = [name for name in programs() if "check_repeats(" in programs()[name]]

REFUSED = [
    ("elastic_times", "--only shorter", "there are no settings ['shorter']; use some of ['defaul"),
    ("finetune", "--keep x --steps 9", "--steps 9 reads nothing; use 20 or more"),
    ("join", "--ranks 1", "--ranks 1 has nobody to wait for; use 2 or more"),
    ("layouts", "--repeats 4 --rounds 5", "--rounds 5 must be 1 to --repeats, 4"),
    ("layouts", "--rounds 0", "--rounds 0 must be 1 to --repeats, 12"),
    ("lighthouse", "--lighthouse /absent", "no Lighthouse here: npm install"),
    ("lighthouse", "--lighthouse true --site /absent", "no book in /absent: make book"),
    ("lines", "--ranks 0", "--megabytes, --ranks and --workers have to be more than 0"),
    ("lines", "--megabytes 1e12", "use --folder or fewer --megabytes"),
    ("lines", "--folder /absent", "--folder: there is no folder /absent"),
    ("live", "stops", "invalid choice: 'stops'"),
    ("memory", "--ranks 5", "the model has heads for 1 to 4"),
    ("one_controller", "prices", "invalid choice: 'prices'"),
    ("padding", "--steps 0", "--steps 0 times nothing; use 1 or more"),
    ("pipelines", "--peak 989", "--peak is that of a GPU; use it with --gpu"),
    ("rank_memory", "--ranks 1", "--ranks 1 has nobody to share with; use 2 or more"),
    ("rivals", "--limit 10", "--limit has to be above gloo's time-out of 10 s"),
    ("rivals", "--lanes 0", "--lanes 1 or more"),
    ("saving", "--widths 0", "--widths 0 is no layer; use 1 or more"),
    ("scaling", "--ranks 1", "--ranks 1: it has to be 2, 4, 8 or another power of two"),
    ("scaling", "--ranks 6", "--ranks 6: it has to be 2, 4, 8 or another power of two"),
    ("scaling", "--steps 0", "--steps 0 times nothing; use 1 or more"),
    ("scaling_reading", "--ranks 6", "--ranks 6: it has to be 2, 4, 8 or another power of two"),
    ("scaling_reading", "--lines 100", "it has to be a multiple of 64, and 256 or more"),
    ("scaling_reading", "--lines 192", "it has to be a multiple of 64, and 256 or more"),
    ("slow_links", "--repeats 2", "use 3 or more --repeats, and --steps 100 or more"),
    ("slow_links", "--steps 99", "use 3 or more --repeats, and --steps 100 or more"),
    ("soak", "--cold-every 0", "--cold-every 0: use 1 or more"),
    ("soak", "--drivers 0", "--drivers 0: use 1 or more"),
    ("speed", "--steps 0", "--steps 0 times nothing; use 1 or more"),
    ("speed_accuracy", "--seeds 1", "--seeds 1 shows no spread between trainings; use 2 or more"),
    ("speed_full", "--steps 0", "--steps 0 times nothing; use 1 or more"),
    ("speed_many", "--ranks 1", "--ranks 1 has nobody to share with; use 2 or more"),
    ("speed_many", "--batch 12", "--batch 12 is no multiple of 8, 2 ranks x 4 parts"),
    ("speed_scaling", "--ranks 1", "--ranks 1 has nobody to share with; use 2 or more"),
    ("speed_scaling", "--ranks 5", "--rows 24 cannot be shared by 5 ranks equally"),
]


class Accepted(Exception):
    """The options were not refused."""


# What a program does first when it goes on, and last: it must neither measure nor write a record.
GOES_ON = "os.getloadavg", "subprocess.run", "tempfile.TemporaryDirectory"
GOES_ON += ("rankbook.core.results.Result.write",)


@pytest.fixture
def refusal(capsys, monkeypatch):
    """Tells the one sentence with which a program ends that was given a line of options."""

    def goes_on(*_, **__):
        raise Accepted

    def said(name: str, line: str) -> str:
        module = importlib.import_module(f"benchmarks.{name}")
        with monkeypatch.context() as patch, pytest.raises(SystemExit) as end:
            for doing in GOES_ON:
                patch.setattr(doing, goes_on)
            getattr(module, "parse", module.main)(line.split())
            raise Accepted
        assert end.value.code == 2
        _, sentence = capsys.readouterr().err.split(" error: ")
        assert sentence.count("\n") == 1
        return sentence

    return said


@pytest.mark.parametrize("name", OWN)
def test_two_repeats_are_too_few(name, refusal):
    line = f"{REPEATS.get(name, '')} {CALLED.get(name, '--repeats')} 2"
    sentence = "--repeats 2 gives no median and spread; use 3 or more"
    assert sentence in refusal(name, line)


@pytest.mark.parametrize(("name", "line", "sentence"), REFUSED)
def test_wrong_options_are_one_sentence(name, line, sentence, refusal):
    assert sentence in refusal(name, line)


def test_a_gpus_options_want_a_gpu(monkeypatch, refusal):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert "--gpu: torch sees no GPU here" in refusal("pipelines", "--gpu")
