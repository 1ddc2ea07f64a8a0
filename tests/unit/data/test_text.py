"""WikiText-2 as text: what the ids are made of."""

import pytest
import torch

from rankbook.data import basic_english, wikitext2, wikitext2_text


def test_the_text_of_the_ids(monkeypatch, tmp_path):
    monkeypatch.setenv("RANKBOOK_CACHE", str(tmp_path))
    text, corpus = wikitext2_text("valid"), wikitext2()
    assert text.count("\n") > 100
    tokens = [token for line in text.split("\n") for token in basic_english(line)]
    assert torch.equal(torch.tensor([corpus.vocab.id(token) for token in tokens]), corpus.valid)


def test_another_split_is_refused():
    with pytest.raises(ValueError, match="no split 'dev', only train, valid, test"):
        wikitext2_text("dev")
