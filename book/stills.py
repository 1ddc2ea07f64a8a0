"""The still pictures of the figures that move: as a page shows them without scripts.

Usage: ``python book/stills.py [NAME ...]``. Chromium draws each figure as it stands at first, in
both languages, in the palette's light colours, and the SVG goes to
``book/pictures/{en,zh}/moving-NAME.svg``. What a reader has chosen, and the numbers, which a page
shows outside of the drawing, stand in lines of their own. A test compares the committed files.
"""

import re
import sys
from pathlib import Path

import chromium

BOOK = Path(__file__).resolve().parent
sys.path[:0] = [str(BOOK / "ext")]

from bookext import moving  # noqa: E402

from plots.palette import TONES  # noqa: E402

HTML_LANG = {"en": "en", "zh": "zh-CN"}
PAGE = """<!DOCTYPE html>
<html lang="{lang}" data-theme="{theme}"><head><meta charset="utf-8"><title>{name}</title>
<meta name="viewport" content="width=device-width">{styles}</head>
<body><main><h1>{name}</h1>{figure}</main>{scripts}</body></html>
"""
FONTS = "system-ui, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', 'DejaVu Sans', sans-serif"
# Lines as wide as the drawing, broken between the items. JupyterLab shows the file itself, maybe on
# a dark ground: the backdrop is for it, and `inline` leaves it out.
DRAW = """([name, lang]) => {
    const MARGIN = 10;
    const spec = Moving.known[name], t = Moving.translator(spec.words, lang), width = 440;
    const now = Moving.state(name), svg = Moving.drawing(spec, now, t, width);
    const [, , w, drawn] = svg.getAttribute("viewBox").split(" ").map(Number);
    const written = (s) => {
        const value = now.settings[s.key];
        if (s.kind === "choice") return t.has(`${s.key}.${value}`) ? t(`${s.key}.${value}`) : value;
        if (s.kind === "check") return value ? "✓" : "–";
        if (s.show) return s.show(value, t);
        return t.has(`${s.key}.is`) ? t(`${s.key}.is`, value) : value;
    };
    const numbers = Object.entries(spec.shown(now.result, now.frame))
        .filter(([key]) => t.has(key))
        .map(([key, v]) => t(key).includes("{}") ? t(key, v) : `${t(key)} ${v}`);
    const used = spec.settings.filter((s) => !s.when || s.when(now.settings));
    const groups = [used.map((s) => `${t(s.key)} ${written(s)}`), numbers];
    let y = drawn + 6;
    groups.forEach((items, at) => {
        let line = "";
        const put = () => {
            if (line) Moving.text(svg, 0, y += 20, line, {fill: at ? "ink" : "quiet"});
        };
        for (const item of items) {
            const longer = line ? line + "   ·   " + item : item;
            if (line && Moving.wide(longer) > w) { put(); line = item; } else line = longer;
        }
        put();
    });
    const box = [-MARGIN, -MARGIN, w + 2 * MARGIN, y + 6 + 2 * MARGIN];
    Moving.size(svg, box[2], box[3]);
    svg.setAttribute("viewBox", box.join(" "));
    svg.prepend(Moving.add(svg, "rect", {x: box[0], y: box[1], width: box[2], height: box[3], rx: 6,
        fill: "paper", class: "backdrop"}));
    return svg.outerHTML;
}"""


def bare_page(name: str, language: str, theme: str = "light") -> str:
    """A page with nothing but the figure `name`, its scripts and its styles, read from files."""
    static = BOOK / "static"
    sheets = [static / each for each in ("palette.css", "pictures.css")]
    scripts = [moving.SCRIPTS / f"{each}.js" for each in ("kit", name)]
    return PAGE.format(
        lang=HTML_LANG[language],
        theme=theme,
        name=name,
        styles="".join(f'<link rel="stylesheet" href="{each.as_uri()}">' for each in sheets)
        + f"<style>body {{ font: 16px/1.6 {FONTS}; margin: 1rem; color: var(--p-ink);"
        " background: var(--p-paper); } * { box-sizing: border-box; }</style>",
        figure=moving.figure(name, language, name),
        scripts="".join(f'<script defer src="{each.as_uri()}"></script>' for each in scripts),
    )


def draw(page, name: str, language: str) -> str:
    """The still of a figure; `page` has it loaded."""
    svg = page.evaluate(DRAW, [name, language])
    svg = re.sub(r"var\(--p-([\w-]+)\)", lambda found: TONES[found[1]].light, svg)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" font-family="{FONTS}"'
    svg = re.sub(r'<svg( xmlns="[^"]*")?', head, svg, count=1)
    svg = re.sub(r' (role|aria-label)="[^"]*"', "", svg)
    svg = re.sub(r"></(rect|path|line|circle|ellipse|polyline|polygon)>", "/>", svg)
    return re.sub(r"(<(?:g|rect|path|text|line|circle|polyline)\b)", r"\n\1", svg) + "\n"


def main() -> None:
    """Write the stills of the figures that the command line names, or of all."""
    from tempfile import TemporaryDirectory

    from playwright.sync_api import sync_playwright

    program = chromium.program()
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=chromium.ARGUMENTS)
        for name in sys.argv[1:] or moving.names():
            for language in HTML_LANG:
                path = Path(folder) / "page.html"
                path.write_text(bare_page(name, language), "utf-8")
                page = browser.new_page()
                page.goto(path.as_uri())
                still = moving.still(name, language)
                still.parent.mkdir(parents=True, exist_ok=True)
                still.write_text(draw(page, name, language), "utf-8")
                page.close()
                print(still.relative_to(BOOK.parent))


if __name__ == "__main__":
    main()
