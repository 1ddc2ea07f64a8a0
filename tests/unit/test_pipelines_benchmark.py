"""The command line of the benchmark of pipelines."""

import pytest

from benchmarks import pipelines


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("--repeats 2", "--repeats 2 gives no median and spread; use 3 or more"),
        ("--repeats x", "invalid int value: 'x'"),
    ],
)
def test_wrong_options_are_one_sentence(line, sentence, capsys):
    with pytest.raises(SystemExit) as end:
        pipelines.parse(line.split())
    assert end.value.code == 2
    assert sentence in capsys.readouterr().err


def test_options():
    assert pipelines.parse([]).repeats == 12
    assert pipelines.parse(["--repeats", "5"]).repeats == 5
