"""The command, the page, its JSON and the picture."""

import json
from xml.etree import ElementTree

from rankbook.__main__ import main
from tests.unit.autopsy.made import call, record


def hang(folder) -> None:
    record(folder, 0, [call(1), call(2, done=False)])
    record(folder, 1, [call(1)])


def test_the_page(tmp_path, capsys):
    hang(tmp_path)
    assert main(["autopsy", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Autopsy of 2 ranks on 1 node: 1 finding."
    assert "   rank 0  waits 30 s  train.py:12 in step: dist.all_reduce(total)" in lines
    assert "   rank 1  stays 30 s  train.py:12 in step: dist.all_reduce(total)" in lines
    assert max(map(len, lines)) <= 76


def test_nothing_wrong(tmp_path, capsys):
    for rank in range(2):
        record(tmp_path, rank, [call(1)], ended={"how": "ended"})
    assert main(["autopsy", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("Autopsy of 2 ranks on 1 node: nothing wrong found.")


def test_what_cannot_be_read_is_one_sentence(tmp_path, capsys):
    assert main(["autopsy", str(tmp_path / "none")]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    assert said.err.startswith("rankbook autopsy: there is no folder ")


def test_json_and_picture(tmp_path, capsys):
    hang(tmp_path)
    picture = tmp_path / "calls.svg"
    assert main(["autopsy", str(tmp_path), "--json", "--picture", str(picture)]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [finding["ranks"] for finding in told["findings"]] == [[1]]
    assert told["ranks"][0]["call"]["op"] == "all_reduce"
    drawn = ElementTree.parse(picture).getroot()
    words = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert (words.count("waits"), words.count("missing")) == (2, 1)  # the legend has one
