"""Lines of the magics: words, commands, ranks; a mistake is one sentence."""

import pytest

from rankbook.live.errors import UsageError
from rankbook.magics.line import RanksLine, TorchrunLine, command_of

COMMANDS = ("start", "stop", "status")


def test_our_words_are_taken_out_and_the_rest_is_torchruns():
    line = TorchrunLine.parse(
        "--nproc-per-node 4 --into r --cold --max-restarts=2 -- --node x 'two words'"
    )
    assert line.options == ["--nproc-per-node", "4", "--max-restarts=2"]
    assert line.program == ["--node", "x", "two words"]
    assert (line.into, line.cold, line.node, line.background) == ("r", True, "", False)
    assert TorchrunLine.parse("--node=node-0 --background").node == "node-0"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--into", "%%torchrun: --into needs a name, such as --into a1"),
        ("--into --cold", "%%torchrun: --into needs a name, such as --into a1"),
        ("--into a.b", "%%torchrun: --into needs a name, such as --into a1"),
        ("--node /x", "%%torchrun: --node needs a name, such as --node a1"),
        ("--background", "%%torchrun --background needs --node NAME, the name that"),
        ("--node a --background --into r", "%%torchrun: --into goes with %torchrun join"),
        ("'", "%%torchrun ': No closing quotation"),
    ],
)
def test_names_are_checked(line, sentence):
    with pytest.raises(UsageError) as error:
        TorchrunLine.parse(line)
    assert str(error.value).startswith(sentence)


def test_a_command_comes_with_a_parser_for_its_options():
    command, parser, words = command_of("%magic", "start -n 2", COMMANDS, "%%magic")
    parser.add_argument("-n", type=int)
    assert (command, parser.parse_args(words).n) == ("start", 2)
    with pytest.raises(UsageError, match=r"^%magic start: argument -n: invalid int value: 'two'$"):
        parser.parse_args(["-n", "two"])


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("", "%magic needs a command; use start, stop or status, or %%magic NAME for a cell"),
        ("sing 2", "%magic sing is unknown; use start, stop or status, or %%magic NAME for a cell"),
        ("start 'x", "%magic start 'x: No closing quotation"),
    ],
)
def test_a_wrong_command_is_one_sentence(line, sentence):
    with pytest.raises(UsageError) as error:
        command_of("%magic", line, COMMANDS, "%%magic NAME")
    assert str(error.value) == sentence


@pytest.mark.parametrize(
    ("line", "ranks"),
    [("", None), ("# all", None), ("0", [0]), ("0,2", [0, 2]), ("[1, 3]  # two", [1, 3])],
)
def test_ranks_of_a_cell(line, ranks):
    assert RanksLine.parse(line).ranks == ranks


@pytest.mark.parametrize("line", ["all", "0-2", "0;1"])
def test_what_names_no_ranks(line):
    with pytest.raises(UsageError, match=f"^%%ranks {line}: give ranks like 0 or 0,2$"):
        RanksLine.parse(line)


def test_what_is_asked_for_a_cell_goes_with_its_ranks():
    assert RanksLine.parse("") == RanksLine(None, time=False, check=True)
    assert RanksLine.parse("0,2 --time --no-check") == RanksLine([0, 2], time=True, check=False)
    assert RanksLine.parse("--time [0, 2]  # why") == RanksLine([0, 2], time=True)
    with pytest.raises(UsageError, match="%%ranks --tim is unknown; use --time or --no-check"):
        RanksLine.parse("0 --tim")
