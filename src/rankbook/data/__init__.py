"""The data of the book: WikiText-2 as ids, IMDB as datasets, and the tokenizers both need.

And data of the reader's own: the lines of a text file shared out over ranks and loader workers,
with audits of what was read how often.

Everything of the book is searched in ``$RANKBOOK_DATA``, then on the Hugging Face hub, then
embedded; one line says which it was. `sources` holds the order and the checks.
"""

from rankbook.data.corpus import Corpus, wikitext2, wikitext2_text
from rankbook.data.lines import ShardedLines
from rankbook.data.reviews import distilbert_tokenizer, imdb
from rankbook.data.seen import Seen, gather_seen, read_by, seen, signed
from rankbook.data.sharding import Reader
from rankbook.data.tokens import Vocab, basic_english

__all__ = [
    "Corpus",
    "Reader",
    "Seen",
    "ShardedLines",
    "Vocab",
    "basic_english",
    "distilbert_tokenizer",
    "gather_seen",
    "imdb",
    "read_by",
    "seen",
    "signed",
    "wikitext2",
    "wikitext2_text",
]
