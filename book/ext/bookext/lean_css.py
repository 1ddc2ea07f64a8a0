"""One style sheet for all pages of a language, with what these pages use and nothing else.

The theme and its extensions bring 0.6 MB of rules for what anybody might write. When all pages are
there, the classes and ids that occur in them are known, and so are all words of the scripts, which
may give an element a class later: a rule stays if each name in its selector is among them. Tags,
states (``:hover``, ``[open]``, ``[data-theme=…]``) and functions (``:not(…)``) may always be.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import tinycss2
from tinycss2.ast import Node

ATTRIBUTE = re.compile(r"""\b(?:class|id)=(?:"([^"]*)"|'([^']*)')""")
WORD = re.compile(r"(?:--)?[a-zA-Z_][\w-]*")
STRING = re.compile(r"""'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`[^`]*`""")
USED = re.compile(r"var\(\s*(--[\w-]+)")
PART_OF_CLASS = re.compile(r"""class[*^$~|]?=["']?([\w-]+)""")
WITHIN = {"media", "supports", "layer", "container"}
# Web fonts: these pages have the system's, and drawn icons.
LEFT_OUT = {"font-face", "charset", "import"}


@dataclass
class Names:
    """What occurs in pages: classes and ids, variables, and the words of scripts."""

    names: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    words: set[str] = field(default_factory=set)

    def add_page(self, text: str) -> None:
        """Take in what occurs in a page."""
        for double, single in ATTRIBUTE.findall(text):
            self.names.update((double or single).split())
        self.variables.update(USED.findall(text))

    def add_script(self, text: str) -> None:
        """Take in what a script may make: the words in its strings."""
        for string in STRING.findall(text):
            self.words.update(WORD.findall(string))


@dataclass
class Rule:
    """A head with declarations (name, value), or with rules inside, as ``@media`` has them."""

    head: str
    declarations: list[tuple[str, str]] = field(default_factory=list)
    inside: list["Rule"] = field(default_factory=list)

    def text(self, used: Callable[[str], bool]) -> str:
        """The rule as CSS, empty if nothing is in it; without variables that are not `used`."""
        kept = [
            f"{name}:{value}"
            for name, value in self.declarations
            if not name.startswith("--") or used(name)
        ]
        inside = "".join(rule.text(used) for rule in self.inside)
        body = ";".join(filter(None, [";".join(kept), inside]))
        return f"{self.head}{{{body}}}" if body else ""


def lean(sheets: Iterable[str], names: Names) -> str:
    """The rules of `sheets` that pages with these `names` can use, as one sheet."""
    rules = []
    for sheet in sheets:
        nodes = tinycss2.parse_stylesheet(sheet, skip_comments=True, skip_whitespace=True)
        rules += _kept(nodes, names)
    used, text = None, _text(rules)
    # Words of scripts may be the beginning of a variable's name: "--p-" + tone.
    begun = tuple(word for word in names.words if word.startswith("--") and word.endswith("-"))
    while (now := set(USED.findall(text)) | names.variables | names.words) != used:
        # again, since a variable may be used by one that nobody uses
        used, text = now, _text(rules, lambda name, now=now: name in now or name.startswith(begun))
    return text


def _text(rules: list[Rule], used: Callable[[str], bool] = lambda _: True) -> str:
    return "\n".join(filter(None, (rule.text(used) for rule in rules)))


def _kept(nodes: Iterable[Node], names: Names) -> Iterator[Rule]:
    for node in nodes:
        if node.type == "qualified-rule":
            selectors = [s for s in split(node.prelude) if possible(s, names)]
            if selectors:
                yield _rule(",".join(map(_small, selectors)), node, names)
        elif node.type == "at-rule" and node.lower_at_keyword not in LEFT_OUT and node.content:
            head = f"@{node.lower_at_keyword} {_small(node.prelude)}".strip()
            if node.lower_at_keyword in WITHIN:
                yield Rule(head, inside=list(_kept(_rule_list(node.content), names)))
            elif "keyframes" in node.lower_at_keyword:
                frames = _rule_list(node.content)
                yield Rule(head, inside=[_rule(_small(f.prelude), f, names) for f in frames])
            else:
                yield _rule(head, node, names)


def _rule(head: str, node: Node, names: Names) -> Rule:
    rule = Rule(head)
    for part in tinycss2.parse_blocks_contents(node.content, True, True):
        if part.type == "declaration":
            value = _small(part.value) + ("!important" if part.important else "")
            rule.declarations.append((part.name, value))
        elif part.type != "error":
            rule.inside += _kept([part], names)
    return rule


def _rule_list(content: list[Node]) -> list[Node]:
    return tinycss2.parse_rule_list(content, skip_comments=True, skip_whitespace=True)


def _small(tokens: list[Node]) -> str:
    """The text of `tokens`, with one space where there were many; strings stay as they are."""
    parts = [" " if token.type == "whitespace" else token.serialize() for token in tokens]
    return re.sub(r"/\*.*?\*/", "", "".join(parts), flags=re.DOTALL).strip()


def split(tokens: list[Node]) -> list[list[Node]]:
    """The selectors of a list, at its commas."""
    parts = [[]]
    for token in tokens:
        if token == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def possible(selector: list[Node], names: Names) -> bool:
    """May an element of the pages be what `selector` says?"""
    return all(_there(token, before, names) for before, token in pairwise([None, *selector]))


def _there(token: Node, before: Node | None, names: Names) -> bool:
    if token.type == "[] block":
        part = PART_OF_CLASS.match(tinycss2.serialize(token.content))
        return not part or any(part[1] in name for name in names.names | names.words)
    if token.type == "hash" or (token.type == "ident" and before == "."):
        return token.value in names.names or token.value in names.words
    return True
