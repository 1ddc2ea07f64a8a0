"""The words around the pages: our templates' in both languages, the theme's in Chinese."""

import gettext
from functools import cache
from pathlib import Path

import sphinx.locale
import yaml
from docutils import nodes

WORDS = Path(__file__).resolve().parents[2] / "words.yml"
LAB = "http://127.0.0.1:8888"  # where `make lab` serves the chapters


@cache
def words_of(name: str) -> dict:
    """A part of ``book/words.yml``: ``en``, ``zh`` or ``theme_zh``; empty where there is none."""
    return yaml.safe_load(WORDS.read_text("utf-8")).get(name, {})


class Overlay(gettext.NullTranslations):
    """Our translation of a string where there is one, the theme's own otherwise."""

    def __init__(self, strings: dict, original):
        super().__init__()
        self._strings, self._original = strings, original

    def gettext(self, message):
        return self._strings.get(message) or self._original.gettext(message)

    def ngettext(self, singular, plural, n):
        return self._strings.get(singular) or self._original.ngettext(singular, plural, n)


def translate_theme(app, config):
    """Complete and correct the theme's Chinese strings, in both of its catalogs."""
    strings = words_of(f"theme_{config.html_context['lang']}")
    if strings:
        for key, original in sphinx.locale.translators.items():
            sphinx.locale.translators[key] = Overlay(strings, original)
        app.translator = Overlay(strings, app.translator)


def add_words(app, pagename, templatename, context, doctree):
    """Give the templates `words` in the page's language."""
    context["words"] = words_of(app.config.html_context["lang"])
    context["lab_url"] = LAB
    context["author"] = app.config.author


def name_hidden_cells(app, doctree):
    """Say what a click on a hidden part of a cell shows: its code, its output, or both."""
    words = words_of(app.config.html_context["lang"])["hidden"]
    for cell in doctree.findall(nodes.container):
        if cell.get("nb_element") == "cell_code" and cell.get("hide_mode"):
            cell["prompt_show"], cell["prompt_hide"] = words[cell["hide_mode"]]


def setup(app):
    app.connect("doctree-read", name_hidden_cells)
    app.connect("config-inited", translate_theme)
    app.connect("html-page-context", add_words)
