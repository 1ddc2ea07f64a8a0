"""A page's HTML without what nobody sees: spans that colour nothing, indentation, twice-told facts.

And with what Sphinx leaves out: the size of each image, so that nothing moves when it arrives.
"""

import re
import struct
from pathlib import Path
from urllib.parse import unquote

from bookext import lean_svg

KEPT = re.compile(
    r"(<(pre|textarea|script|style|svg)\b.*?</\2>)", re.DOTALL
)  # white space in them is meant
INDENTED = re.compile(r"[ \t]*\n\s*")
VIEWPORT = re.compile(r'\s*<meta (?:content="[^"]*" )?name="viewport"[^>]*>')
SPAN = re.compile(r'<span class="([\w-]+)">([^<]*)</span>')
CONTENTS = re.compile(r'<nav id="pst-page-toc-nav".*?</nav>', re.DOTALL)
FOURTH = re.compile(
    r'<ul class="[^"]*">\s*(?:<li class="toc-h4[^<]*(?:<(?!ul|/li>)[^<]*)*</li>\s*)+</ul>'
)
MANY = 150  # entries of the contents of a page
SOURCE_LINK = re.compile(
    r'<a class="reference internal" (href="[^"]*")><span class="(viewcode-link)">([^<]*)</span></a>'
)
SIGNATURE = re.compile(r'<dt class="sig .*?</dt>', re.DOTALL)
PAREN = re.compile(r'<span class="sig-paren">([^<]*)</span>')
DEFAULT = re.compile(r'<span class="o">=</span><span class="default_value">')  # one colour
TO_DEFINITION = re.compile(r'<a class="headerlink" href="[^"]*" title="[^"]*">[^<]*</a>(?=</dt>)')
SUMMARY = re.compile(r"<summary[^>]*>.*?</summary>", re.DOTALL)
IMAGE = re.compile(r"<img\b[^>]*>")
SOURCE = re.compile(r'\bsrc="([^":]*)"')
COLOURED = re.compile(r"([^{}]*)\{([^}]*)\}")
LAST_CLASS = re.compile(r"\.highlight \.([\w-]+)\s*$")


def plain_classes(pygments_css: str) -> set[str]:
    """The classes of code that look like the text around them, in the light and in the dark.

    Sphinx's own ``pre``, around each word of a name in the text, looks like nothing, either.
    """
    ground, colours = {}, {}
    for head, body in COLOURED.findall(pygments_css):
        mode = "dark" if "dark" in head else "light"
        style = ";".join(sorted(part.strip() for part in body.split(";") if part.strip()))
        colour = re.search(r"(?:^|;)color: ([^;]+)", style)
        if head.strip().endswith(".highlight") and colour:
            ground[mode] = f"color: {colour[1]}"
        elif found := LAST_CLASS.search(head):
            colours.setdefault(found[1], {})[mode] = re.sub(r"/\*.*?\*/", "", style).strip()
    plain = {name for name, by in colours.items() if all(ground.get(m) == s for m, s in by.items())}
    return plain | {"pre", "w", "esc", "x"} - (colours.keys() - plain)


def lean(text: str, page: Path, plain: set[str]) -> str:
    """The HTML `text` of the file `page`; plain: the classes of spans that do nothing."""
    first, *_ = VIEWPORT.findall(text) or [""]
    text = VIEWPORT.sub("", text).replace("</title>", "</title>" + first.strip(), 1)
    text = text.replace('data-theme="auto"', 'data-theme="light"', 1)  # until the script knows
    text = text.replace('class="bd-main" role="main"', 'class="bd-main"', 1)  # <main> says it
    if page.parts[-2:] == ("_modules", "index.html"):
        text = _nested(text)
    for _ in range(2):  # a word of a name is in two of them
        text = SPAN.sub(lambda span: span[2] if span[1] in plain else span[0], text)
    text = SOURCE_LINK.sub(r'<a class="\2" \1>\3</a>', text)
    text = SIGNATURE.sub(lambda signature: _signature(signature[0]), text)
    text = TO_DEFINITION.sub("", text)  # book.js makes them
    text = CONTENTS.sub(lambda contents: _contents(contents[0]), text)
    text = SUMMARY.sub(lambda summary: _phrases(summary[0]), text)
    text = IMAGE.sub(lambda image: sized(image[0], page), text)
    parts = KEPT.split(text)  # between, kept, its tag, between, …
    for number in range(0, len(parts), 3):
        parts[number] = INDENTED.sub("\n", parts[number])
    parts[1::3] = [_kept(*part) for part in zip(parts[1::3], parts[2::3], strict=True)]
    del parts[2::3]
    return "".join(parts).strip() + "\n"


def _kept(part: str, tag: str) -> str:
    if tag == "svg":
        return lean_svg.lean(part)
    if tag == "pre":  # the blocks that viewcode marks in a listing are divs, which may not be there
        part = part.replace('<div class="viewcode-block"', '<span class="viewcode-block"')
        return part.replace("</div>", "</span>")
    return part


def _nested(text: str) -> str:
    """The list of all modules, whose inner lists Sphinx puts beside the entries, not into them."""
    count = text.count("</li>\n<ul>")
    place = text.find("</li>\n<ul>")
    return text[:place] + text[place:].replace("</li>\n<ul>", "\n<ul>").replace(
        "</ul>", "</ul></li>", count
    )


def _signature(text: str) -> str:
    """A signature: what is within brackets needs no names to look as it does."""
    text = PAREN.sub(r"\1", DEFAULT.sub('<span class="default_value">=', text))
    return text.replace('<em class="sig-param">', "<em>")


def _contents(nav: str) -> str:
    """The contents of a page; of very many entries three levels: no reader unfolds more."""
    nav = nav.replace('<code class="docutils literal notranslate">', "<code>")
    return FOURTH.sub("", nav) if nav.count("<li") > MANY else nav


def _phrases(summary: str) -> str:
    """A summary holds phrases, no paragraphs; what it says names it better than a label does."""
    summary = summary.replace(' aria-label="Toggle hidden content"', "")
    return summary.replace("<p ", "<span ").replace("</p>", "</span>")


def sized(image: str, page: Path) -> str:
    """The tag `image` of `page` with the width and height of its file, if it has neither."""
    source = SOURCE.search(image)
    if not source or re.search(r"\b(?:width|height)[=:]", image):
        return image
    size = size_of(page.parent / unquote(source[1]))
    return image.replace("<img", f'<img width="{size[0]}" height="{size[1]}"', 1) if size else image


def size_of(path: Path) -> tuple[int, int] | None:
    """Width and height of a PNG or SVG file; None if it does not say."""
    if path.suffix == ".png" and path.exists():
        return struct.unpack(">II", path.read_bytes()[16:24])
    if path.suffix == ".svg" and path.exists():
        head = re.search(r'viewBox="([^"]*)"', path.read_text("utf-8"))
        return tuple(round(float(number)) for number in head[1].split()[2:4]) if head else None
    return None
