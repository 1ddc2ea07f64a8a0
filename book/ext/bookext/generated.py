"""Parts of pages that are made from data: a comment line in a page names the part.

``<!-- glossary -->`` becomes the glossary of ``book/glossary.yml`` in the page's language;
``<!-- modules: rankbook.live -->`` the reference of a package's public names,
``<!-- symptoms -->`` what `bookext.symptoms` makes, and ``<!-- origins -->`` what `bookext.origins`
does. Chapters are not touched: only the pages of ``book/en`` and ``book/zh``.
"""

import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path

import yaml

from bookext import origins, symptoms

GLOSSARY = Path(__file__).resolve().parents[2] / "glossary.yml"
ELSEWHERE = ("monarch", "monarch.actor")
MARK = re.compile(r"^<!-- (\w+)(?:: ([\w.]+))? -->$", re.MULTILINE)


def glossary(language: str, _argument: str) -> str:
    """The glossary as Markdown: one section a topic, in the file's order in both languages."""
    other = {"en": "zh", "zh": "en"}[language]
    lines = []
    for topic in yaml.safe_load(GLOSSARY.read_text("utf-8")):
        lines += [f"## {topic[language]}", ""]
        for term in topic["terms"]:
            name, twin = term[language], term[other]
            beside = f" · {twin}" if twin != name else ""
            lines += [f"[{name}]{{#term-{slug(term['en'])}}}{beside}"]
            lines += [f": {term['means'][language]}", ""]
    return "\n".join(lines)


def slug(term: str) -> str:
    """An anchor for an English term: ``all-reduce (ring)`` is ``all-reduce-ring``."""
    return "-".join(re.findall(r"[a-z0-9]+", term.lower()))


def modules(_language: str, package: str) -> str:
    """The public names of `package` and the modules in it, as autodoc directives.

    A module without a public name that has a docstring is left out.
    """
    parts = []
    for name in module_names(package):
        names = public_names(name)
        if names:
            parts += [f"## `{name}`", "", "::::{div} english", "```{eval-rst}"]
            parts += [f".. automodule:: {name}", f"   :members: {', '.join(names)}"]
            parts += ["```", "::::", ""]
    return "\n".join(parts)


def module_names(package: str) -> list[str]:
    """`package` and every module below it, sorted.

    Without those that run when imported, and without the packages that have a page of their own.
    """
    top = importlib.import_module(package)
    inside = pkgutil.walk_packages(getattr(top, "__path__", []), package + ".")
    apart = tuple(f"{other}." for other in documented() if other.startswith(f"{package}."))
    names = (module.name for module in inside)
    return [
        package,
        *sorted(n for n in names if not n.endswith(".__main__") and not f"{n}.".startswith(apart)),
    ]


@cache
def documented() -> list[str]:
    """The packages that the pages of the reference name, which both languages do alike."""
    pages = sorted((GLOSSARY.parent / "en" / "api").glob("*.md"))
    return [match[2] for page in pages for match in MARK.finditer(page.read_text("utf-8"))]


def public_names(module: str) -> list[str]:
    """Functions and classes defined in `module`, documented, without a leading underscore.

    None of a module that needs a package which the book is built without.
    """
    try:
        loaded = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name not in ELSEWHERE:
            raise
        return []
    found = inspect.getmembers(
        loaded, lambda item: inspect.isclass(item) or inspect.isroutine(item)
    )
    return [
        name
        for name, item in found
        if not name.startswith("_") and item.__module__ == module and item.__doc__
    ]


PARTS = {
    "glossary": glossary,
    "modules": modules,
    "origins": origins.sections,
    "symptoms": symptoms.entries,
}


def fill(app, docname, source):
    """Replace the comment lines of the book's own pages by what they name."""
    if docname.startswith("book/"):
        language = app.config.html_context["lang"]
        source[0] = MARK.sub(lambda match: PARTS[match[1]](language, match[2]), source[0])


def setup(app):
    app.connect("source-read", fill)
