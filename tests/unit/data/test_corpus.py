"""wikitext2(): the golden ids, and the ids that are kept between processes."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from rankbook.data import corpus, wikitext2
from rankbook.data.embedded import prose
from tests.waiting import SOON, until

ROOT = Path(__file__).parents[3]
# what the real torchtext gave: see book/legacy
GOLDEN = json.loads((ROOT / "book/results/legacy-kernel.json").read_text("utf-8"))["text"]
SPLITS = ("train", "valid", "test")


def test_real_ids_are_torchtexts(real_data):
    folder = real_data("wikitext-2")
    for split, lines in GOLDEN["lines"].items():
        assert (folder / f"{split}.txt").read_bytes().count(b"\n") == lines
    for _ in ("made", "kept"):
        text = wikitext2()
        assert len(text.vocab) == GOLDEN["vocab_size"]
        assert list(text.vocab[:20]) == GOLDEN["first_tokens"]
        assert list(text.vocab[-5:]) == GOLDEN["last_tokens"]
        joined = "\n".join(text.vocab).encode()
        assert hashlib.sha256(joined).hexdigest() == GOLDEN["vocab_sha256"]
        for split, expected in GOLDEN["splits"].items():
            ids = getattr(text, split)
            assert ids.dtype == torch.int64 and ids.shape == (expected["ids"],)
            assert ids[:24].tolist() == expected["first_ids"]
            assert ids[-5:].tolist() == expected["last_ids"]
            assert int((ids == 0).sum()) == expected["unknown"]
            little_endian = ids.numpy().astype("<i8").tobytes()
            assert hashlib.sha256(little_endian).hexdigest() == expected["int64_le_sha256"]


def test_small_ids_by_hand(small_data):
    text = wikitext2()
    # the 2, cat 2, then once each by code point; the empty line leaves nothing
    assert list(text.vocab) == [*("<unk>", "=", "cat", "the", ",", ".", "a", "ran", "sat", "title")]
    assert text.train.tolist() == [1, 6, 9, 1, 3, 2, 8, 4, 3, 2, 7, 5]
    assert text.valid.tolist() == [3, 0, 8, 5]
    assert text.test.tolist() == [3, 2, 8, 5]


def test_only_common_words(small_data):
    whole = wikitext2()
    text = whole.common(4)
    assert list(text.vocab) == ["<unk>", "=", "cat", "the"] and text.vocab.id("the") == 3
    assert text.train.tolist() == [1, 0, 0, 1, 3, 2, 0, 0, 3, 2, 0, 0]
    assert text.test.tolist() == [3, 2, 0, 0] and whole.test.tolist() == [3, 2, 8, 5]
    assert whole.common(99).vocab == whole.vocab
    with pytest.raises(ValueError, match="words is 1"):
        whole.common(1)


def kept() -> list[Path]:
    return list(Path(os.environ["RANKBOOK_CACHE"]).iterdir())


def test_kept_ids_are_used_and_spare_the_work(small_data, monkeypatch):
    made = wikitext2()
    monkeypatch.setattr(corpus, "_make", lambda *_: pytest.fail("the kept ids were not used"))
    again = wikitext2()
    assert again.vocab == made.vocab
    assert all(torch.equal(getattr(again, s), getattr(made, s)) for s in SPLITS)


def test_changed_text_gets_ids_of_its_own(small_data, monkeypatch):
    wikitext2()
    changed = (small_data / "wikitext-2/valid.txt").read_text() + " cat \n"
    (small_data / "wikitext-2/valid.txt").write_text(changed)
    digest = hashlib.sha256(changed.encode()).hexdigest()
    monkeypatch.setitem(corpus.local_files.__globals__["SHA256"], "wikitext-2/valid.txt", digest)
    assert wikitext2().valid.tolist() == [3, 0, 8, 5, 2]
    assert len(kept()) == 2


@pytest.mark.parametrize("damage", ["empty", "cut", "text", "one bit", "a list"])
def test_damaged_ids_are_made_again(small_data, damage):
    made = wikitext2()
    (path,) = kept()
    content = bytearray(path.read_bytes())
    if damage == "one bit":
        ids = made.train.int().numpy().tobytes()
        content[content.index(ids) + 4] ^= 1
    if damage == "a list":
        torch.save([1, 2], path)
    else:
        damaged = {"empty": b"", "cut": content[: len(content) // 2], "text": b"hello"}
        path.write_bytes(damaged.get(damage, content))
    assert torch.equal(wikitext2().train, made.train)
    assert corpus._load(path) is not None, "the damaged file was not replaced"


def test_kept_file_runs_no_code(small_data, tmp_path):
    import pickle

    class Planted:
        def __reduce__(self):
            return Path.touch, (tmp_path / "ran",)

    made = wikitext2()
    (path,) = kept()
    with path.open("wb") as file:
        pickle.dump(Planted(), file, protocol=2)  # what torch.load reads without a warning
    assert torch.equal(wikitext2().train, made.train)
    assert not (tmp_path / "ran").exists()


def test_of_those_that_find_nothing_one_makes_the_ids(small_data, monkeypatch):
    looks, made = [], []
    everybody_looked = threading.Event()
    load, make = corpus._load, corpus._make

    def watched_load(path):
        found = load(path)
        looks.append(found)
        if len(looks) > 3:  # each of the three once, and one that may make them once more
            everybody_looked.set()
        return found

    def watched_make(texts, path):
        everybody_looked.wait(SOON)
        made.append(path)
        return make(texts, path)

    monkeypatch.setattr(corpus, "_load", watched_load)
    monkeypatch.setattr(corpus, "_make", watched_make)
    with ThreadPoolExecutor(3) as pool:
        texts = [call.result() for call in [pool.submit(wikitext2) for _ in range(3)]]
    assert looks[:4] == [None] * 4 and len(made) == 1
    assert all(torch.equal(text.train, texts[0].train) for text in texts)
    assert kept() == made


def test_folder_that_cannot_be_written_is_no_error(small_data, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("RANKBOOK_CACHE", str(tmp_path / "file" / "below"))
    assert wikitext2().test.tolist() == [3, 2, 8, 5]


RANK = """
import sys, time
from pathlib import Path
from rankbook.data import wikitext2
Path(sys.argv[1]).touch()
while not Path(sys.argv[2]).exists():  # start together, or there is no race
    time.sleep(0.001)
text = wikitext2()
print(len(text.vocab), int(text.train.sum()), len(text.valid), len(text.test))
"""


@pytest.mark.slow
def test_ranks_that_start_together_agree_and_leave_one_file(small_data, tmp_path):
    big = "\n".join(f" word{i} word{i % 7} . " for i in range(30_000))
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    del env["RANKBOOK_DATA"]
    code = (
        "import rankbook.data.corpus as corpus\n"
        "corpus.search = lambda *_: ({s: TEXT for s in corpus.SPLITS}, '')\n"
    ).replace("TEXT", "open(__import__('sys').argv[3]).read()")
    (tmp_path / "text").write_text(big)
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code + RANK]
            + [str(tmp_path / name) for name in (f"ready{rank}", "go", "text")],
            env=env,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(4)
    ]
    try:
        until(
            lambda: all((tmp_path / f"ready{rank}").exists() for rank in range(4)),
            goes_on=lambda: all(rank.poll() is None for rank in ranks),
        )
        (tmp_path / "go").touch()
        said = {rank.communicate(timeout=SOON)[0] for rank in ranks}
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert len(said) == 1 and said.pop().startswith("30002 ")
    (path,) = kept()
    assert corpus._load(path) is not None


def test_offline_text_is_english_and_its_splits_share_no_paragraph():
    splits = {split: text.split("\n") for split, text in prose().items()}
    assert list(splits) == list(SPLITS)
    everything = [paragraph for split in splits.values() for paragraph in split]
    assert len(everything) == len(set(everything)) > 1000
    assert 0.78 < len(splits["train"]) / len(everything) < 0.82
    words = " ".join(everything).lower().split()
    assert len(words) > 30_000
    # In English prose these four make up some 15 % of the words, in code hardly any.
    assert sum(words.count(word) for word in ("the", "of", "is", "a")) / len(words) > 0.1
    assert prose() == prose()
