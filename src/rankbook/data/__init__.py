"""The data of the book: WikiText-2 as ids, IMDB as datasets, and the tokenizers both need.

And data of the reader's own: the lines of a text file shared out over ranks and loader workers,
with audits of what was read how often.

Everything of the book is searched in ``$RANKBOOK_DATA``, then on the Hugging Face hub, then
embedded; one line says which it was. `sources` holds the order and the checks.
"""

from rankbook.data.ceil_split import CeilSplitLines
from rankbook.data.corpus import Corpus, wikitext2, wikitext2_text
from rankbook.data.lines import ShardedLines
from rankbook.data.reviews import distilbert_tokenizer, imdb
from rankbook.data.sample_audit import (
    SampleAudit,
    audit_samples,
    collate_with_reader,
    gather_audit,
    samples_by_reader,
)
from rankbook.data.sharding import Reader
from rankbook.data.tokens import Vocab, basic_english

__all__ = [
    "CeilSplitLines",
    "Corpus",
    "Reader",
    "SampleAudit",
    "ShardedLines",
    "Vocab",
    "audit_samples",
    "basic_english",
    "collate_with_reader",
    "distilbert_tokenizer",
    "gather_audit",
    "imdb",
    "samples_by_reader",
    "wikitext2",
    "wikitext2_text",
]
