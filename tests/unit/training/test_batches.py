"""Batches: rows of a text, windows that predict every token once."""

import pytest
import torch

from rankbook.training import (
    batchify,
    count_batches,
    get_batch,
    padded,
    steps_of_epoch,
    training_batch,
    windows,
)

ALPHABET = torch.arange(26)


def test_batchify_is_the_originals_batch_first():
    source = batchify(ALPHABET, 4)
    # the original's picture: a to f, g to l, m to r, s to x; y and z are trimmed
    assert source.tolist() == [list(range(start, start + 6)) for start in (0, 6, 12, 18)]


@pytest.mark.parametrize("rows", [0, 14])
def test_batchify_refuses_rows_it_cannot_fill(rows):
    with pytest.raises(ValueError, match=f"a text of 26 tokens cannot fill {rows} rows"):
        batchify(ALPHABET, rows)


def test_targets_are_the_next_tokens():
    tokens, targets = get_batch(batchify(ALPHABET, 2), 3, 4)
    assert tokens.tolist() == [[3, 4, 5, 6], [16, 17, 18, 19]]
    assert torch.equal(targets, tokens + 1)


@pytest.mark.parametrize("length", [1, 4, 5, 6, 12, 13, 100])
def test_windows_predict_every_column_but_the_first_once(length):
    source = batchify(ALPHABET, 2)
    found = list(windows(source, length))
    assert len(found) == count_batches(source, length)
    assert torch.equal(torch.cat([targets for _, targets in found], dim=1), source[:, 1:])
    assert torch.equal(torch.cat([tokens for tokens, _ in found], dim=1), source[:, :-1])
    assert all(tokens.shape[1] == length for tokens, _ in found[:-1])


def test_windows_can_be_limited():
    assert len(list(windows(batchify(ALPHABET, 2), 4, limit=2))) == 2
    assert len(list(windows(batchify(ALPHABET, 2), 4, limit=99))) == 3


def test_training_takes_whole_windows_again_and_again():
    source = batchify(ALPHABET, 2)  # 13 columns: two whole windows of 5, and 2 left
    starts = [training_batch(source, step, 5)[0][0, 0].item() for step in range(5)]
    assert starts == [0, 5, 0, 5, 0]
    assert steps_of_epoch(source, 5) == 2 and steps_of_epoch(source, 12) == 1
    assert training_batch(source, 0, 12)[1].shape == (2, 12)
    with pytest.raises(ValueError, match="rows of 13 tokens have no window of 13"):
        training_batch(source, 0, 13)


def test_shorter_windows_are_made_as_long_by_what_counts_nowhere():
    source = batchify(ALPHABET, 2)  # 13 columns: windows of 5, 5 and 2
    found, plain = list(padded(windows(source, 5), 5)), list(windows(source, 5))
    assert [tuple(ids.shape) for batch in found for ids in batch] == [(2, 5)] * 6
    for (tokens, targets), (own, following) in zip(found, plain, strict=True):
        length = own.shape[1]
        assert torch.equal(tokens[:, :length], own) and not tokens[:, length:].any()
        assert torch.equal(targets[:, :length], following)
        assert (targets[:, length:] == -100).all()
