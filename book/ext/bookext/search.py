"""Chinese full-text search: text and query are cut into the same bigrams, so any phrase is found.

The word lists that Sphinx uses for Chinese cut the text into words, but not the query. Also here: a
build of a few pages keeps in the index what the other pages entered.
"""

import re

from sphinx.search import IndexBuilder
from sphinx.search.en import SearchEnglish

CJK = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
RUN = re.compile(f"[{CJK}]+")


def bigrams(run: str) -> list[str]:
    """Every two neighbouring characters; a single character is its own piece."""
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


class ChineseSearch(SearchEnglish):
    """CJK text as bigrams and single characters, anything else as English."""

    lang = "zh"
    language_name = "Chinese"
    # The same cutting in the browser. Single characters are searched only when typed alone.
    js_splitter_code = r"""
var splitQuery = (query) => query
  .split(/[^\p{Letter}\p{Number}_\p{Emoji_Presentation}]+/gu)
  .flatMap((part) => part.match(/[CJK]+|[^CJK]+/g) || [])
  .flatMap((run) => /[CJK]/.test(run) && run.length > 2
    ? Array.from({length: run.length - 1}, (_, i) => run.slice(i, i + 2)) : [run]);
""".replace("CJK", r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff")

    _before = ""  # the CJK character that the text before ended with

    def split(self, text: str) -> list[str]:
        """The pieces of `text` that go into the index.

        Sphinx gives a page's texts in order, and a link or a bold word is one of its own: the
        bigram over its edge belongs to the text after it.
        """
        pieces = super().split(RUN.sub(" ", text))
        if self._before and RUN.match(text):
            pieces.append(self._before + text[0])
        for run in RUN.findall(text):
            pieces += [*bigrams(run), *run]
        self._before = text[-1] if RUN.match(text[-1:]) else ""
        return pieces

    def word_filter(self, word: str) -> bool:
        """Keep CJK pieces of any length; English words as Sphinx does."""
        return bool(RUN.match(word)) or super().word_filter(word)


def load_all(self, stream, form, load=IndexBuilder.load) -> None:
    """Load the last build's index, with the names of the library, which Sphinx's `load` forgets."""
    load(self, stream, form)
    stream.seek(0)
    last = form.load(stream)
    for entry, places in last["indexentries"].items():
        for number, target, main in places:
            entries = self._index_entries.setdefault(last["docnames"][number], [])
            entries.append((entry, target, "main" if main else ""))


def setup(app):
    app.add_search_language(ChineseSearch)
    IndexBuilder.load = load_all
