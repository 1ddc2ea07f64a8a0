"""basic_english against a second, plain statement of torchtext's rules."""

import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankbook.data import Vocab, basic_english

SPACED = {"'", ".", ",", "(", ")", "!", "?"}  # become tokens of their own
BLANK = {";", ":"}  # become whitespace


def stated_again(text: str) -> list[str]:
    """torchtext's basic_english, character by character: no table of replacements, no library.

    A double quote vanishes before ``<br />`` is looked for, a full stop or an apostrophe inside
    the tag is spaced out before; so the tag is found in what is left of each stretch of text.
    """
    kept = "".join(char for char in text.lower() if char != '"')
    spaced = "".join(f" {char} " if char in {"'", "."} else char for char in kept)
    spread = ""
    for char in " ".join(spaced.split("<br />")):
        spread += " " if char in BLANK else f" {char} " if char in SPACED else char
    tokens, word = [], ""
    for char in [*spread, " "]:
        if not char.isspace():
            word += char
        elif word:
            tokens.append(word)
            word = ""
    return tokens


# Whole-Unicode text, and text that is dense in what the rules look at.
AWKWARD = st.lists(
    st.sampled_from(
        [*"'\".,()!?;:<br/> aZΣσςİıß\u0301", "<br />", '<b"r />', "<br/>", "<unk>", "ΟΔΟΣ"]
        + [chr(code) for code in (*range(0x1C, 0x20), 0x85, 0xA0, 0x200B, 0x2028, 0x3000, 0xFEFF)]
        + ["\r", "\n", "\t", "\v", "\f", "\0", "\U0001f600", "戦場"]
    ),
    max_size=40,
).map("".join)


@given(st.one_of(st.text(), AWKWARD))
def test_equals_the_rules_stated_again(text):
    assert basic_english(text) == stated_again(text)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Can't, (really): no!", ["can", "'", "t", ",", "(", "really", ")", "no", "!"]),
        ('a"b" c', ["ab", "c"]),
        ("one<br />two<br/>three", ["one", "two<br/>three"]),
        ('<b"r />', []),  # the quote goes first, and leaves a tag
        ("a\x1cb\x1fc", ["a", "b", "c"]),  # whitespace to Python, not to Rust
        ("ΣΑΣ", ["σας"]),  # the final sigma, which a lower case by character misses
        (" \n", []),
    ],
)
def test_known_answers(text, tokens):
    assert basic_english(text) == tokens


@given(st.lists(st.text("ab<unk>", min_size=1, max_size=5)))
def test_vocabulary_is_ordered_by_count_then_code_point(tokens):
    vocab = Vocab.of([*tokens, "<unk>"])
    rest = list(vocab)[1:]
    assert vocab[0] == "<unk>"
    assert set(rest) == set(tokens) - {"<unk>"}
    assert len(rest) == len(set(rest))
    for one, following in pairwise(rest):
        counts = tokens.count(one), tokens.count(following)
        assert counts[0] > counts[1] or (counts[0] == counts[1] and one < following)
    assert [vocab.id(token) for token in vocab] == list(range(len(vocab)))


def test_unknown_tokens_get_the_id_of_unk():
    vocab = Vocab.of(["the", "cat", "the"])
    assert list(vocab) == ["<unk>", "the", "cat"]
    assert vocab.encode("The CAT, the dog") == [1, 2, 0, 1, 0]
    assert vocab.id("<unk>") == 0


def test_without_tokenizers_one_sentence_says_what_to_install(monkeypatch):
    from rankbook.data import tokens

    tokens._punctuation.cache_clear()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ImportError, match="pip install tokenizers"):
        basic_english("a")
