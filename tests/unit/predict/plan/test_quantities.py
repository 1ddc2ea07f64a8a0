"""Numbers as people write them, and the sentence for each that is none."""

import pytest

from rankbook.predict.plan.quantities import amount, count, parameters, short, tokens


@pytest.mark.parametrize(
    ("text", "number"),
    [("7.5e9", 7.5e9), ("7.5B", 7.5e9), ("70b", 7e10), ("350M", 3.5e8), ("1.8T", 1.8e12)],
)
def test_parameters_are_decimal(text, number):
    assert parameters(text) == number


@pytest.mark.parametrize(
    ("text", "number"), [("4M", 2**22), ("512k", 2**19), ("4194304", 2**22), ("4e6", 4_000_000)]
)
def test_tokens_are_counted_in_powers_of_two(text, number):
    assert tokens(text) == number


@pytest.mark.parametrize("text", ["1.5", "0.5k5", "-1", "4 096", "1e-3"])
def test_tokens_are_whole(text):
    with pytest.raises(ValueError, match="is no number of tokens; write 4M"):
        tokens(text)


@pytest.mark.parametrize(
    "text", ["", "B", "7.5 parameters", "-3", "0", "0.2", "nan", "1e999", "7G"]
)
def test_what_is_no_number_is_said(text):
    with pytest.raises(ValueError) as error:
        parameters(text)
    assert "is no number of parameters; write 7.5e9" in str(error.value)


@pytest.mark.parametrize("text", ["0", "-8", "8.5", "eight", "", "²"])
def test_counts_are_whole(text):
    with pytest.raises(ValueError, match=r"no number of GPUs \(--gpus\); give a whole number"):
        count(text, "GPUs (--gpus)")


@pytest.mark.parametrize("text", ["0", "-1", "x", "inf", "nan"])
def test_amounts_are_above_nothing(text):
    with pytest.raises(ValueError, match=r"memory=.* is no number above 0; write it as 48e9"):
        amount(text, "memory")


@pytest.mark.parametrize(("number", "text"), [(7.5e9, "7.5 B"), (350e6, "350 M"), (12, "12")])
def test_for_people(number, text):
    assert short(number) == text
