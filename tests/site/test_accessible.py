"""The pages under axe, light and dark; its slowest rule where a page has colours of its own."""

import pytest

from tests.site.drawn import SETTLED

pytestmark = pytest.mark.timeout(1800)  # the first test may have to build the book
# What is fine need not be told.
AXE = {"preload": False, "resultTypes": ["violations"]}
WITHOUT_CONTRAST = AXE | {"rules": {"color-contrast": {"enabled": False}}}
ONLY_CONTRAST = AXE | {"runOnly": ["color-contrast"]}
# axe takes minutes over the contrast of thousands of spans of code, all of a dozen colours:
# FAINT_CODE sees it in no time. Of other text it takes seconds a page, and sees what it saw on the
# pages before: only what PAIRS finds on no earlier page is new to it.
NO_CODE = {"exclude": [["pre"], ["dt.sig"], ["code"]]}
# The pairs of colours of code on the page that have less than WCAG 2.1's contrast of 4.5.
FAINT_CODE = """() => {
    const opaque = (color) => color.startsWith('rgb(');
    const ground = (e) => {
        const color = getComputedStyle(e).backgroundColor;
        return opaque(color) || !e.parentElement ? color : ground(e.parentElement);
    };
    const luminance = (color) => {
        const [r, g, b] = color.match(/[\\d.]+/g).map((part) => part / 255)
            .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const CODE = ['pre', 'pre span', 'dt.sig', 'dt.sig span', 'code', 'code span'].join();
    const pairs = new Set();
    for (const text of document.querySelectorAll(CODE)) {
        if (text.textContent.trim()) {
            pairs.add(getComputedStyle(text).color + ' on ' + ground(text));
        }
    }
    return [...pairs].filter((pair) => {
        const [dark, bright] = pair.split(' on ').map(luminance).sort((a, b) => a - b);
        return (bright + 0.05) / (dark + 0.05) < 4.5;
    });
}"""

# Spans that do nothing but colour code, most of a page's elements, go: axe walks over all there is.
PLAIN_CODE = """() => {
    for (const span of document.querySelectorAll('pre span, dt.sig span')) {
        if (span.getAttributeNames().every((name) => name === 'class')) {
            span.replaceWith(...span.childNodes);
        }
    }
    document.querySelectorAll('pre, dt.sig').forEach((code) => code.normalize());
}"""

# What the contrast of a text depends on, once for each kind of text on the page.
PAIRS = """() => {
    const ground = (e) => {
        const {backgroundColor: color, backgroundImage: image, opacity} = getComputedStyle(e);
        const own = [color, image, opacity].join(' ').replace('rgba(0, 0, 0, 0) none 1', '');
        const whole = color.startsWith('rgb(') && opacity === '1';
        return own + (whole || !e.parentElement ? '' : ground(e.parentElement));
    };
    const pairs = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.parentElement;
        if (walker.currentNode.nodeValue.trim() && text.checkVisibility()
            && !text.closest('pre, dt.sig, code, script, style')) {
            const {color, fill, fontSize, fontWeight} = getComputedStyle(text);
            const large = parseFloat(fontSize) >= (fontWeight >= 700 ? 18.66 : 24);
            pairs.add([text.closest('svg') ? fill : color, large, ground(text)].join(' on '));
        }
    }
    return [...pairs];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_accessible(visit, tour, english, chinese, address, language, scheme):
    page = visit("index.html", color_scheme=scheme)
    seen, violations = set(), []
    pages = english if language == "en" else chinese
    for path in [*tour(pages), f"{language}/search.html"]:
        page.goto(address + path)
        page.wait_for_function(SETTLED)
        faint = page.evaluate(FAINT_CODE)
        if faint:
            violations.append(f"{path}: code with a contrast below 4.5: {faint}")
        pairs = set(page.evaluate(PAIRS))
        found = look(page, with_contrast=not pairs <= seen, with_rest=scheme == "light")
        seen |= pairs
        violations += [f"{path}: {violation}" for violation in found]
    assert not violations, "\n".join(violations)


def look(page, with_contrast: bool, with_rest: bool) -> list[str]:
    """What axe calls serious on the page. The rest is the same in both schemes."""
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate(PLAIN_CODE)
    found = []
    if with_contrast:
        found += Axe().run(page, context=NO_CODE, options=ONLY_CONTRAST).response["violations"]
    if with_rest:
        found += Axe().run(page, options=WITHOUT_CONTRAST).response["violations"]
    return [
        f"{violation['id']}: {[node['html'][:160] for node in violation['nodes'][:3]]}"
        for violation in found
        if violation["impact"] in ("serious", "critical")
    ]
