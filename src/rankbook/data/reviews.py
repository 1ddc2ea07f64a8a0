"""IMDB's film reviews, cut as the third original cuts them, and the tokenizer they go through."""

import hashlib
import lzma
from io import BytesIO
from typing import TYPE_CHECKING

from rankbook.data import embedded, hub
from rankbook.data.sources import local_files, need, search

if TYPE_CHECKING:  # both are loaded only when asked for: a GPU box may have neither
    from datasets import Dataset, DatasetDict
    from transformers import DistilBertTokenizerFast

# Rows of the third original, in the order of its file: the first, the next, the last.
SPLITS = {"train": 35_000, "validation": 5_000, "test": 10_000}
HUB_SEED = 0


def imdb() -> "DatasetDict":
    """Return 50,000 film reviews: ``train`` 35,000 rows, ``validation`` 5,000, ``test`` 10,000.

    Columns: ``text`` and ``label`` (0 negative, 1 positive). The result's ``source`` is the line
    that says where they came from. Source: Maas et al. 2011, ACL P11-1015.

    Searched in ``$RANKBOOK_DATA/imdb`` (the original's own file and order), on the Hugging Face
    hub (the same reviews in another order, shuffled with a fixed seed), then generated.

    Raises ImportError without ``datasets``, FileNotFoundError or ValueError for a half-present or
    changed folder.
    """
    datasets = need("datasets", "Loading the film reviews")
    rows, source = search("IMDB", _from_folder, _from_hub, _generated)
    splits = datasets.DatasetDict()
    start = 0
    for name, size in SPLITS.items():
        splits[name] = rows.select(range(start, start + size))
        start += size
    splits.source = source
    return splits


def distilbert_tokenizer() -> "DistilBertTokenizerFast":
    """Return the uncased DistilBERT tokenizer of ``transformers``; texts of 512 tokens at most.

    Its vocabulary is searched in ``$RANKBOOK_DATA/distilbert-vocab``, on the Hugging Face hub,
    then made of the embedded text; a model must take its size from ``len(tokenizer)``. The
    result's ``source`` is the line that says which.

    Raises ImportError without ``transformers``, FileNotFoundError or ValueError for a
    half-present or changed folder.
    """
    need("transformers", "The DistilBERT tokenizer")
    finders = (_vocab_file, _hub_vocab, _own_vocab)
    tokenizer, source = search("DistilBERT's vocabulary", *finders)
    tokenizer.source = source
    return tokenizer


def _from_folder() -> "tuple[Dataset, str]":
    files, where = local_files("imdb")
    from pyarrow import csv

    with lzma.open(BytesIO(files["movie_data.csv.xz"])) as rows:
        table = csv.read_csv(rows, parse_options=csv.ParseOptions(newlines_in_values=True))
    return _rows(table["review"], table["sentiment"]), where


def _from_hub() -> "tuple[Dataset, str]":
    found, where = hub.dataset("stanfordnlp/imdb", "plain_text")
    from datasets import concatenate_datasets

    both = concatenate_datasets([found["train"], found["test"]])
    # In the hub's order all negative reviews stand first; the original's own order is not there.
    both = both.shuffle(seed=HUB_SEED, keep_in_memory=True)
    columns = both[:]  # lists: a column of a shuffled dataset is read row by row, slowly
    return _rows(columns["text"], columns["label"]), f"{where}, shuffled with seed {HUB_SEED}"


def _generated() -> "tuple[Dataset, str]":
    return _rows(*embedded.reviews()), "generated reviews of IMDB's lengths in its place"


def _rows(texts, labels) -> "Dataset":
    """Return `texts` and `labels` as one dataset, of the same column types for every source."""
    import pyarrow
    from datasets import ClassLabel, Dataset, Features, Value

    features = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
    table = pyarrow.table({"text": texts, "label": labels})
    table = table.cast(features.arrow_schema)
    # Left to itself, Dataset pickles the whole table for a fingerprint: 250 MB more on every rank.
    digest = hashlib.sha256()
    chunks = (chunk for column in table.columns for chunk in column.chunks)
    for buffer in (buffer for chunk in chunks for buffer in chunk.buffers() if buffer):
        digest.update(buffer)
    return Dataset(table, fingerprint=digest.hexdigest()[:16])


def _vocab_file() -> "tuple[DistilBertTokenizerFast, str]":
    files, where = local_files("distilbert-vocab")
    return _tokenizer(files["vocab.txt"].decode().splitlines()), where


def _hub_vocab() -> "tuple[DistilBertTokenizerFast, str]":
    # The file, not the hub's tokenizer: without its files, transformers makes one of five tokens.
    content, where = hub.file("distilbert/distilbert-base-uncased", "vocab.txt")
    return _tokenizer(content.decode().splitlines()), where


def _own_vocab() -> "tuple[DistilBertTokenizerFast, str]":
    return _tokenizer(embedded.wordpieces()), "words and characters of the embedded text instead"


def _tokenizer(pieces: list[str]) -> "DistilBertTokenizerFast":
    from transformers import DistilBertTokenizerFast

    ids = {piece: i for i, piece in enumerate(pieces)}
    return DistilBertTokenizerFast(vocab=ids, model_max_length=512)
