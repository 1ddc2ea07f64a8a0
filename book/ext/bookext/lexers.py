"""Colours: the body of our cell magics is Python or bash; ``[0-3]`` before a line is a prefix."""

import re

from ipython_pygments_lexers import IPython3Lexer, Python3Lexer
from myst_nb.core.lexers import AnsiColorLexer
from pygments.lexer import bygroups, using
from pygments.lexers import BashLexer
from pygments.token import Generic, Keyword, Operator, Text

MAGIC = r"(?s)(\s*)(%%)(ranks|torchrun|cluster(?= --here))\b([^\n]*\n)(.*)"
SCRIPT = r"(?s)(\s*)(%%)(cluster)\b([^\n]*\n)(.*)"
PREFIX = re.compile(r"(?m)^\[\d+(?:[-,]\d+)*\](?= |$)")


class MagicLexer(IPython3Lexer):
    """IPython 3, with ``%%ranks`` and ``%%torchrun`` cells as Python, ``%%cluster`` as bash."""

    tokens = {  # noqa: RUF012 - Pygments' own form
        **IPython3Lexer.tokens,
        "root": [
            (MAGIC, bygroups(Text, Operator, Keyword, Text, using(Python3Lexer))),
            (SCRIPT, bygroups(Text, Operator, Keyword, Text, using(BashLexer))),
            *IPython3Lexer.tokens["root"],
        ],
    }


class OutputLexer(AnsiColorLexer):
    """Text a cell printed: ANSI colours, and rank prefixes as prompts."""

    name = "Ranks output"
    aliases = ("ranks-output",)

    def get_tokens_unprocessed(self, text, stack=("root",)):
        """Yield (index, token, text), prefixes at line starts apart from the rest."""
        for index, token, piece in super().get_tokens_unprocessed(text, stack):
            start = 0
            for match in PREFIX.finditer(piece):
                if index + match.start() == 0 or text[index + match.start() - 1] == "\n":
                    yield index + start, token, piece[start : match.start()]
                    yield index + match.start(), Generic.Prompt, match.group()
                    start = match.end()
            yield index + start, token, piece[start:]


def setup(app):
    for name in ("ipython3", "ipython"):
        app.add_lexer(name, MagicLexer)
    app.add_lexer("ranks-output", OutputLexer)
