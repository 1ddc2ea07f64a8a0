"""What the tests of rankbook.data share: clean surroundings and data."""

import pytest

from rankbook.data import sources
from tests.reader import clean, real_data

__all__ = ["clean", "real_data"]  # fixtures


@pytest.fixture
def small_data(monkeypatch, tmp_path):
    """Return a folder with small files of the right layout, and their checksums expected."""
    from hashlib import sha256

    root = tmp_path / "data"
    contents = {
        "wikitext-2/train.txt": " \n = A title = \n The cat sat , the cat ran . \n",
        "wikitext-2/valid.txt": " The dog sat . \n",
        "wikitext-2/test.txt": " The cat sat . \n",
        "distilbert-vocab/vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncat\n##s\n",
    }
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        monkeypatch.setitem(sources.SHA256, name, sha256(text.encode()).hexdigest())
    monkeypatch.setenv("RANKBOOK_DATA", str(root))
    return root
