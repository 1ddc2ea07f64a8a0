"""On a phone, every word of a picture is large enough to be read: plots, diagrams, figures."""

import pytest

from tests.site.drawn import SETTLED

pytestmark = pytest.mark.timeout(1800)  # the first test may have to build the book
PHONE = {"viewport": {"width": 360, "height": 740}}
SMALLEST = 9  # CSS pixels
# The words of all pictures with the size at which they are shown, whatever scales them.
WORDS = """() => [...document.querySelectorAll('article svg')].flatMap((picture) =>
  [...picture.querySelectorAll('text, tspan, foreignObject *')]
    .filter((text) => [...text.childNodes].some((n) => n.nodeType === 3 && n.data.trim()))
    .map((text) => {
      const turn = (text.getScreenCTM ? text : text.closest('foreignObject')).getScreenCTM();
      const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(turn.a, turn.b);
      return {size, words: text.textContent.trim(), name: picture.getAttribute('aria-label')};
    }))"""
# Pictures that do not fit: wider than the column that they stand in.
WIDER = """() => [...document.querySelectorAll('article svg, article img')].filter((picture) =>
    picture.getBoundingClientRect().right > document.documentElement.clientWidth)
    .map((picture) => picture.getAttribute('aria-label') || picture.alt || picture.outerHTML)"""


@pytest.mark.parametrize("language", ["english", "chinese"])
def test_every_word_of_a_picture_can_be_read_on_a_phone(visit, tour, request, address, language):
    page, seen = visit("index.html", **PHONE), 0
    small, wide = [], []
    every = request.getfixturevalue(language)
    pages = tour(every)
    for path in pages:
        page.goto(address + path)
        page.wait_for_function(SETTLED)
        found = page.evaluate(WORDS)
        seen += len(found)
        small += [
            f"{path}: {each['words']!r} is {each['size']:.1f} px, in {each['name']!r}"
            for each in found
            if each["size"] < SMALLEST
        ]
        wide += [f"{path}: {words[:80]}" for words in page.evaluate(WIDER)]
    assert seen > (1000 if pages == every else 0), "the pictures' words are no text any more"
    assert not small, "\n".join(small)
    assert not wide, "\n".join(wide)
