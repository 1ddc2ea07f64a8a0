"""One palette for every picture of the book: plots, diagrams, figures that move.

A plot is drawn in the light values. In the built book each of them becomes a CSS variable
(``--p-rank-0``), whose dark value the page's dark mode takes; `book/static/palette.css` has both.
"""

from typing import NamedTuple


class Tone(NamedTuple):
    """One colour, on a light and on a dark ground, as ``#rrggbb``."""

    light: str
    dark: str


# Ranks (stages, chunks, agents): one colour each, the same on every page; after eight, again.
RANKS = (
    Tone("#1f6cab", "#62b0ec"),  # blue
    Tone("#e0812f", "#f2a35e"),  # orange
    Tone("#6cb5d0", "#a9dcee"),  # pale blue
    Tone("#a8384a", "#ee8a98"),  # red
    Tone("#3d8558", "#72c794"),  # green
    Tone("#cfae3f", "#ecd47a"),  # gold
    Tone("#73559f", "#bd9ee8"),  # violet
    Tone("#98a3af", "#c3ccd5"),  # grey
)
TONES = {
    "ink": Tone("#2b3036", "#e4e7ea"),  # words, and what is drawn like words
    "quiet": Tone("#5f6973", "#a4aeb8"),  # words of less weight, axes
    "line": Tone("#c6ccd3", "#4a525b"),  # borders
    "grid": Tone("#e4e7ea", "#2b3138"),
    "ground": Tone("#f1f3f5", "#1e242b"),  # areas that hold something
    "paper": Tone("#fefefe", "#14181e"),  # the page itself, where it has to cover something
    "on-deep": Tone("#ffffff", "#11151a"),  # words on a deep rank's colour
    "on-pale": Tone("#1a1e23", "#11141a"),  # words on a pale one
    "bad": Tone("#b8322a", "#ff9088"),  # what fails
    "good": Tone("#2b7a4b", "#79d39c"),  # what holds
    **{f"rank-{number}": tone for number, tone in enumerate(RANKS)},
}
VARIABLES = {tone.light: f"var(--p-{name}, {tone.light})" for name, tone in TONES.items()}


def css() -> str:
    """The palette as a style sheet; `book/static/palette.css` is this text."""

    def rule(selector: str, mode: str) -> str:
        values = " ".join(f"--p-{name}: {getattr(tone, mode)};" for name, tone in TONES.items())
        return f"{selector} {{ {values} }}\n"

    light, dark = rule(":root", "light"), rule('html[data-theme="dark"]', "dark")
    return f"{light}@media screen {{\n{dark}}}\n"
