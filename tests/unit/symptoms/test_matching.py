"""A pasted text leads to its entry: with numbers, paths, addresses, ranks and colours in it."""

import random
import re
import subprocess
import sys

import pytest

from rankbook.symptoms import Symptom, every, find, pointer
from rankbook.symptoms.entries import VARIES

MESSAGES = [s for s in every() if s.kind == "message"]
SPOKEN = {"en": "en_US.UTF-8", "zh": "zh_CN.UTF-8"}

TRACEBACK = """\
[rank3]: Traceback (most recent call last):
[rank3]:   File "/home/me/train.py", line 41, in <module>
[rank3]:     main()
[rank3]:   File "/opt/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", line 1778
[rank3]:     return forward_call(*args, **kwargs)
[rank3]: \x1b[31mRuntimeError\x1b[0m: {message}
[rank3]:[W1122 13:16:57.392411186 ProcessGroup.cpp:138] Exception raised from here (frame #7: 0x1f)
"""


def test_there_are_sixty_entries_and_more_with_names_of_their_own():
    assert len(every()) >= 60 and len({s.id for s in every()}) == len(every())
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", s.id) for s in every())
    assert {s.kind for s in every()} == {"message", "hang", "number"}


@pytest.mark.parametrize("symptom", MESSAGES, ids=lambda s: s.id)
def test_a_message_in_a_traceback_finds_its_entry(symptom: Symptom):
    assert find(TRACEBACK.format(message=symptom.message())) == symptom


@pytest.mark.parametrize("symptom", MESSAGES, ids=lambda s: s.id)
def test_other_numbers_and_paths_find_it_as_well(symptom: Symptom):
    other = random.Random(symptom.id)
    for _ in range(20):
        new = VARIES.sub(lambda _: f"/tmp/{other.randrange(10**6)}-x", symptom.said["en"])
        assert find(TRACEBACK.format(message=new)) == symptom


@pytest.mark.parametrize("symptom", MESSAGES, ids=lambda s: s.id)
def test_a_message_that_is_broken_into_lines_finds_it(symptom: Symptom):
    broken = "\n".join(symptom.message().split(" "))
    assert find(broken) == symptom


def test_a_consequence_counts_where_nothing_else_is_found():
    closed = "RuntimeError: pair.cc:553] Connection closed by peer [127.0.0.1]:4122"
    assert find(closed).id == "peer-closed"
    assert find(f"{closed}\nIndexError: Target 256 is out of bounds.").id == "target-out-of-bounds"
    assert find(f"Operation timed out!\n{closed}").late


def test_an_unknown_text_finds_nothing():
    for text in ("", "ValueError: no data on rank 1", "it does not work", "a\nb\n" * 10_000):
        assert find(text) is None and pointer(text) == ""


def test_the_pointer_names_entry_and_page():
    assert pointer("No module named 'torchdata.datapipes'") == (
        "More on this: rankbook symptom datapipes-gone (symptoms.html#datapipes-gone)"
    )


def test_patterns_mean_the_same_to_javascript():
    """Only what both languages have: no names, flags or look-behind, and no escapes of letters."""
    for symptom in MESSAGES:
        assert not re.search(r"\(\?|\\[A-Za-z]", symptom.pattern), symptom.id


def test_looking_something_up_loads_no_torch():
    code = "import sys; from rankbook.symptoms import pointer; pointer('x'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "rankbook.symptoms.matching" in loaded
    assert not {"torch", "numpy", "IPython"} & loaded


def command(*arguments: str, language: str = "en", stdin: str = "") -> subprocess.CompletedProcess:
    code = (
        "import argparse, sys; from rankbook.symptoms import add_command\n"
        "parser = argparse.ArgumentParser(prog='rankbook')\n"
        "add_command(parser.add_subparsers(required=True))\n"
        "given = parser.parse_args(sys.argv[1:]); sys.exit(given.run(given))"
    )
    line = [sys.executable, "-X", "utf8", "-c", code, "symptom", *arguments]
    where = {"LANG": SPOKEN[language], "PATH": ""}
    return subprocess.run(line, input=stdin, env=where, capture_output=True, text=True)


def test_the_command_prints_an_entry_by_name_by_text_and_from_a_pipe():
    ways = [
        command("torn-checkpoint"),
        command("PytorchStreamReader failed reading zip archive: x"),
        command("-", stdin="line\nPytorchStreamReader failed reading\nzip archive"),
    ]
    assert {(done.returncode, done.stderr) for done in ways} == {(0, "")}
    assert len({done.stdout for done in ways}) == 1
    said = ways[0].stdout
    assert "It means: The file is torn" in said and "symptoms.html#torn-checkpoint" in said
    assert "42_nothing_lost.ipynb#cell-id=torn," in said


def test_the_command_speaks_the_readers_language():
    assert "含义：文件写坏了" in command("torn-checkpoint", language="zh").stdout


def test_the_command_says_what_it_does_not_know_and_lists_what_it_has():
    done = command("it does not work")
    assert done.returncode == 1 and "no entry" in done.stdout
    listed = command().stdout.splitlines()
    assert [line.split()[0] for line in listed] == [s.id for s in every()]
