"""The data of the book: WikiText-2 as ids, IMDB as datasets, and the tokenizers both need.

Everything is searched in ``$RANKBOOK_DATA``, then on the Hugging Face hub, then embedded; one
line says which it was. `sources` holds the order and the checks.
"""

from rankbook.data.corpus import Corpus, wikitext2
from rankbook.data.reviews import distilbert_tokenizer, imdb
from rankbook.data.tokens import Vocab, basic_english

__all__ = ["Corpus", "Vocab", "basic_english", "distilbert_tokenizer", "imdb", "wikitext2"]
