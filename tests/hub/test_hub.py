"""The hub: asked last but one, briefly, and not at all when it need not be.

Each test runs in a process of its own, against a hub on loopback or none at all.
"""

import io
import socket

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hub import fake_hub

ALL = """
from rankbook.data import distilbert_tokenizer, imdb, wikitext2
text, reviews, tokenizer = wikitext2(), imdb(), distilbert_tokenizer()
sources = [text.source, reviews.source, tokenizer.source]
"""
NO_FOLDER = "$RANKBOOK_DATA is not set"


def parquet(**columns) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


def dataset(config: str, **splits: dict) -> dict[str, bytes]:
    """Return a repository as `datasets` expects it on the hub: a card, and a file per split."""
    card = f"---\nconfigs:\n- config_name: {config}\n  data_files:\n" + "".join(
        f"  - split: {split}\n    path: {config}/{split}-*\n" for split in splits
    )
    files = {f"{config}/{s}-00000-of-00001.parquet": parquet(**c) for s, c in splits.items()}
    return {"README.md": f"{card}---\n".encode(), **files}


@pytest.fixture
def repos() -> dict:
    lines = ["", " = A title = \n", " The cat sat , the cat ran . \n"]
    half = 25_000
    return {
        "datasets/Salesforce/wikitext": dataset(
            "wikitext-2-v1",
            train={"text": lines},
            validation={"text": [" The dog sat . \n"]},
            test={"text": [" The cat sat . \n"]},
        ),
        "datasets/stanfordnlp/imdb": dataset(
            "plain_text",
            train={"text": [f"train {i}" for i in range(half)], "label": [0, 1] * (half // 2)},
            test={"text": [f"test {i}" for i in range(half)], "label": [0] * half},
        ),
        "distilbert/distilbert-base-uncased": {
            "vocab.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n##s\n"
        },
    }


def test_hub_is_used_then_its_cache_and_both_give_the_same(repos, fresh):
    code = f"""{ALL}
print(json.dumps([sources, list(text.vocab), text.train.tolist(), text.valid.tolist(),
    [len(rows) for rows in reviews.values()], reviews["test"][:3], tokenizer.tokenize("cats")]))"""
    with fake_hub.serving(repos) as (url, asked):
        lines, online = fresh(code, HF_ENDPOINT=url)
    assert asked
    sources, vocab, train, valid, sizes, reviews, pieces = online
    assert lines == sources
    assert sources == [
        f"WikiText-2: Salesforce/wikitext of the Hugging Face hub ({NO_FOLDER})",
        f"IMDB: stanfordnlp/imdb of the Hugging Face hub, shuffled with seed 0 ({NO_FOLDER})",
        "DistilBERT's vocabulary: distilbert/distilbert-base-uncased of the Hugging Face hub "
        f"({NO_FOLDER})",
    ]
    # The same small text as from a folder, the same ids: test_corpus.py has them by hand.
    assert vocab == ["<unk>", "=", "cat", "the", ",", ".", "a", "ran", "sat", "title"]
    assert train == [1, 6, 9, 1, 3, 2, 8, 4, 3, 2, 7, 5]
    assert valid == [3, 0, 8, 5]
    assert sizes == [35_000, 5_000, 10_000]
    for text, label in zip(reviews["text"], reviews["label"], strict=True):
        part, number = text.split()
        assert label == (int(number) % 2 if part == "train" else 0)
    assert pieces == ["cat", "##s"]

    assert fresh(code)[1] == online, "no hub any more: its local cache gives the same"
    assert fresh(code, HF_HUB_OFFLINE="1")[1] == online


def test_without_a_hub_all_is_embedded_at_once_and_alike_on_every_rank(fresh):
    code = f"""
import hashlib, socket
asked, connect = [], socket.socket.connect
def counted(self, address):
    asked.append(address)
    return connect(self, address)
socket.socket.connect = counted
{ALL}
sums = [hashlib.sha256(repr(x).encode()).hexdigest() for x in (
    text.vocab, text.train.tolist(), reviews["train"][:100], sorted(tokenizer.get_vocab().items()))]
print(json.dumps([sources, sums, asked]))"""
    lines, (sources, sums, asked) = fresh(code)
    assert lines == sources
    reason = f"({NO_FOLDER}; the hub did not answer)"
    assert all(source.endswith(reason) for source in sources)
    assert "pydoc_data.topics" in sources[0]
    assert "generated reviews" in sources[1]
    # Left to their own retries, the hub's clients would ask five times for the first alone. One of
    # them may ask once on its own account, for the names of programs that use it.
    assert asked in ([["127.0.0.1", 9]] * 3, [["127.0.0.1", 9]] * 4)
    lines, (_, again, _) = fresh(code, RANK="1", PYTHONHASHSEED="7")
    assert lines == []
    assert again == sums


def test_hub_that_accepts_and_never_answers_is_given_up(fresh):
    """After one request; `fresh` would tell if the process did not end by itself."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        code = "from rankbook.data import wikitext2\nprint(json.dumps(wikitext2().source))"
        _, source = fresh(code, HF_ENDPOINT=url)
        silent.setblocking(False)
        silent.accept()[0].close()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert source.endswith("the hub did not answer)")


def test_broken_hub_is_not_tried_again_and_again(fresh):
    with fake_hub.serving({}) as (url, asked):
        _, source = fresh(
            "from rankbook.data import wikitext2\nprint(json.dumps(wikitext2().source))",
            HF_ENDPOINT=url,
        )
    assert source.endswith(f"({NO_FOLDER}; the hub answered 404)")
    assert len([line for line in asked if "wikitext" in line]) == 1


def test_hub_offline_sends_no_request(repos, fresh):
    with fake_hub.serving(repos) as (url, asked):
        _, sources = fresh(
            f"{ALL}\nprint(json.dumps(sources))", HF_ENDPOINT=url, HF_HUB_OFFLINE="1"
        )
    assert asked == []
    assert all(source.endswith(f"({NO_FOLDER}; HF_HUB_OFFLINE is set)") for source in sources)


def test_own_files_are_read_without_asking_the_hub(real_data, repos, fresh):
    for folder in ("wikitext-2", "imdb", "distilbert-vocab"):
        real_data(folder)
    with fake_hub.serving(repos) as (url, asked):
        _, sources = fresh(f"{ALL}\nprint(json.dumps(sources))", HF_ENDPOINT=url)
    assert asked == []
    assert all("the files of $RANKBOOK_DATA/" in source for source in sources)


def test_box_with_torch_and_tokenizers_alone(fresh):
    """An offline GPU box: none of the hub's packages, and nothing of ours asks for them."""
    _, (source, ids, missing) = fresh("""
import sys
for package in ("datasets", "transformers", "huggingface_hub", "pyarrow", "IPython", "matplotlib"):
    sys.modules[package] = None
import rankbook.data
text = rankbook.data.wikitext2()
try:
    rankbook.data.imdb()
except ImportError as error:
    missing = str(error)
print(json.dumps([text.source, len(text.train), missing]))""")
    assert source.endswith("the package datasets is not installed)")
    assert ids > 30_000
    assert missing == (
        "Loading the film reviews needs the package datasets, and this Python does not have it; "
        "install it with: pip install datasets"
    )


def test_import_is_light(fresh):
    _, loaded = fresh("""
import sys
import rankbook.data
heavy = ("datasets", "transformers", "tokenizers", "huggingface_hub", "pyarrow", "pandas")
print(json.dumps([package for package in heavy if package in sys.modules]))""")
    assert loaded == []
