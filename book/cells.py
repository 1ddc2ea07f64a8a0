"""The code of a chapter's cells, whatever magic runs them: what it uses of the library."""

import ast
import re

from closure import Use, use_of
from library import ALL, Library

CELL_MAGIC = re.compile(r"\A\s*%%(\w+)([^\n]*)\n?")
LINE_MAGIC = re.compile(r"^([ \t]*(?:[\w, ]+= *)?)[%!](\w*)([^\n]*)$", re.MULTILINE)
EXTENSION = re.compile(r"^[ \t]*%load_ext +([\w.]+)", re.MULTILINE)


def use_of_cells(sources: list[str], library: Library) -> Use:
    """What the code cells `sources` of one chapter use; a name that one imports, others know."""
    nodes: list[ast.stmt] = []
    strings: set[str] = set()
    targets: set[str] = set()
    for source in sources:
        magic = CELL_MAGIC.match(source)
        body = source[magic.end() :] if magic else source
        words = {word for _, word, _ in LINE_MAGIC.findall(body)} | ({magic[1]} if magic else set())
        targets |= of_magics(words, library)
        targets |= {f"{name}.load_ipython_extension" for name in EXTENSION.findall(source)}
        texts = [magic[2]] if magic else []
        try:
            nodes += ast.parse(LINE_MAGIC.sub(r"\1None", body)).body
        except SyntaxError:  # bash, or what only IPython understands: its words count
            texts += [body, *re.findall(r"[\w./-]+", body)]
        strings.update(texts)
        targets.update(*map(library.mentions, texts))
    use = use_of(nodes, library)
    found = use.targets | {target for target in targets if library.has(target)}
    return Use(found, use.shown, use.strings | strings)


def of_magics(words: set[str], library: Library) -> set[str]:
    """The targets of our magics among `words`: their modules, and all of the engine room."""
    ours = {f"{top}.magics.{word}" for top in library.tops for word in words}
    ours &= library.paths.keys()
    return ours | {f"{name.partition('.')[0]}.live.{ALL}" for name in ours}
