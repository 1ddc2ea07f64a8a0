"""WikiText-2 as it was written, line by line: for readers that make their own samples."""

from rankbook.data.corpus import SPLITS, _from_folder, _from_hub, _from_python
from rankbook.data.sources import search


def wikitext2_text(split: str) -> str:
    r"""Return one split of WikiText-2 as text, with its blank lines; lines end with ``\n``.

    split: "train", "valid" or "test". Searched where `wikitext2` searches. Raises ValueError for
    another split, FileNotFoundError or ValueError for a half-present or changed folder.
    """
    if split not in SPLITS:
        raise ValueError(f"WikiText-2 has no split {split!r}, only {', '.join(SPLITS)}")
    texts, _ = search("WikiText-2", _from_folder, _from_hub, _from_python)
    return texts[split]
