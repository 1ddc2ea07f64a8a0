"""matplotlib's SVG without what a page does not need: fonts, paper, ids, twelve digits."""

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
NUMBER = re.compile(r"-?\d+\.\d{3,}")
MEANT = re.compile(r"url\(#([^)]+)\)")
NEEDLESS = re.compile(r"(font-family|font-stretch|font-variant): [^;]*;? ?")
UNSEEN = re.compile(r"opacity: 0(;|$)|^fill: none(; stroke: none)?$")
ElementTree.register_namespace("", SVG.strip("{}"))


def lightened(svg: str) -> Element:
    """The root of the drawing `svg`; its words are all in elements ``text``."""
    root = ElementTree.fromstring(svg)
    _remove_paper(root)
    used = _used(root)
    for element in root.iter():
        _lighten(element, used)
    _unwrap(root)
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
        value = NUMBER.sub(_short, element.get(name, ""))
        element.set(name, " ".join(value.split()))
    element.tail = None
    if element.tag != f"{SVG}text" and not (element.text or "").strip():
        element.text = None


def _short(number: re.Match) -> str:
    short = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short


def _unwrap(element: Element) -> None:
    """Put what a group without a meaning holds in its place; drop what is not seen."""
    kept = []
    for child in element:
        _unwrap(child)
        if child.tag in {f"{SVG}g", f"{SVG}defs"} and not len(child):
            continue
        if child.tag == f"{SVG}g" and not child.attrib:
            kept += list(child)
        elif not UNSEEN.search(child.get("style", "")):
            kept.append(child)
    element[:] = kept
