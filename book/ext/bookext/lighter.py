"""matplotlib's SVG without what a page does not need: fonts, paper, ids, twelve digits."""

import re
from collections.abc import Iterator
from functools import partial
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
NUMBER = re.compile(r"-?\d+\.\d{2,}")
PLACES = {"d": 1, "x": 1, "y": 1, "points": 1}  # decimals that are seen; 2 of all else
MEANT = re.compile(r"url\(#([^)]+)\)")
NEEDLESS = re.compile(r"(font-family|font-stretch|font-variant|stroke-linecap): [^;]*;? ?")
LOOK = ("style", "clip-path")
CHINESE = 0x2E80  # the first of its characters
SLACK = 3.0  # units: what of a word may stick out
ElementTree.register_namespace("", SVG.strip("{}"))


def lightened(svg: str) -> Element:
    """The root of the drawing `svg`; its words are all in elements ``text``."""
    root = ElementTree.fromstring(svg)
    _remove_paper(root)
    used = _used(root)
    for element in root.iter():
        _lighten(element, used)
    _unwrap(root)
    for element in list(root.iter()):
        if element.tag != f"{SVG}text":
            _share(element)
    return root


def _remove_paper(root: Element) -> None:
    """The ground of a figure is its first patch; the page has one. The style would be the page's"""
    for figure in root.iter(f"{SVG}g"):
        if figure.get("id") == "figure_1":
            figure.remove(figure[0])
    for defs in list(root.findall(f"{SVG}defs")):
        for style in defs.findall(f"{SVG}style"):
            defs.remove(style)


def _used(root: Element) -> set[str]:
    """The ids that something in the drawing points at."""
    found = {element.get(LINK, "#")[1:] for element in root.iter()}
    for element in root.iter():
        for value in element.attrib.values():
            found |= set(MEANT.findall(value))
    return found


def _lighten(element: Element, used: set[str]) -> None:
    if LINK in element.attrib:
        element.set("href", element.attrib.pop(LINK))
    if element.get("id") not in used:
        element.attrib.pop("id", None)
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    if "style" in element.attrib:
        element.set("style", NEEDLESS.sub("", element.get("style", "")))
    for name in element.attrib.keys() - {"id", "href"}:
        short = partial(_short, PLACES.get(name, 2))
        value = NUMBER.sub(short, element.get(name, ""))
        element.set(name, " ".join(value.split()))
    element.tail = None
    if element.tag != f"{SVG}text" and not (element.text or "").strip():
        element.text = None


def _short(places: int, number: re.Match) -> str:
    short = f"{float(number[0]):.{places}f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def _unwrap(element: Element) -> None:
    """Put what a group without a meaning holds in its place."""
    kept = []
    for child in element:
        _unwrap(child)
        kept += child if child.tag == f"{SVG}g" and not child.attrib else [child]
    element[:] = kept


def _share(element: Element) -> None:
    """Say once for neighbours of the same look what that look is."""
    kept: list[Element] = []
    for child in element:
        look = {name: child.attrib[name] for name in LOOK if name in child.attrib}
        alone = "transform" in child.attrib and "clip-path" in look  # it is clipped as it is turned
        if alone or not (look and kept and kept[-1].get("style") == look.get("style")):
            kept.append(child)
            continue
        before = kept[-1]
        if {name: before.attrib[name] for name in LOOK if name in before.attrib} != look:
            kept.append(child)
            continue
        if before.tag != f"{SVG}g" or len(before.attrib) != len(look):
            kept[-1] = Element(f"{SVG}g", look)
            kept[-1].append(_without(before))
        kept[-1].append(_without(child))
    element[:] = kept


def _without(element: Element) -> Element:
    for name in LOOK:
        element.attrib.pop(name, None)
    return element


def outside(root: Element) -> Iterator[str]:
    """The words of the drawing that do not lie on it, as a page's font is likely to set them."""
    right = float(root.get("viewBox", "").split()[2])
    groups = {child: parent for parent in root.iter() for child in parent}
    for text in root.iter(f"{SVG}text"):
        words, look = text.text or "", text.get("style") or groups[text].get("style", "")
        size = re.search(r"font-size: ([\d.]+)", look)
        if "x" not in text.attrib or "transform" in text.attrib or size is None:
            continue
        wide = float(size[1]) * _width(words)
        share = 0.5 if "anchor: middle" in look else 1.0 if "anchor: end" in look else 0.0
        left = float(text.get("x", "")) - share * wide
        if left < -SLACK or left + wide > right + SLACK:
            yield words


def _width(words: str) -> float:
    """How wide `words` are, in font sizes: Chinese is square, matplotlib knows the rest."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    latin = "".join(c for c in words if ord(c) < CHINESE)
    wide, _, _ = text_to_path.get_text_width_height_descent(latin, FontProperties(size=10), False)
    return len(words) - len(latin) + 0.95 * wide / 10
