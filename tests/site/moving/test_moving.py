"""What every figure that moves can do: on a phone, by keyboard, without scripts, on paper."""

import random
import re

import pytest
from bookext import moving
from stills import HTML_LANG, draw

from tests.site.moving.rounding import fixed

NAMES = moving.names()
STEPPED = {"collectives", "elastic"}  # as they stand at first; the others have one picture then
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True}
CHINESE = re.compile(r"[\u4e00-\u9fff]")
AXE = {"preload": False, "resultTypes": ["violations"]}
WEIGHT = 40_000  # bytes: of the kit and one figure
WORDS = """(name) => {
    const {words, settings, marks, said} = Moving.known[name];
    const needed = ["alt", ...settings.map((s) => s.key)];
    return {words, needed, settings};
}"""
# Words that are too small, or outside of their drawing.
WRONG_WORDS = """() => {
    const svg = document.querySelector(".moving-drawing svg"), wrong = [];
    const frame = svg.getBoundingClientRect(), scale = frame.width / svg.viewBox.baseVal.width;
    for (const words of svg.querySelectorAll("text")) {
        const box = words.getBoundingClientRect();
        const size = parseFloat(getComputedStyle(words).fontSize) * scale;
        const inside = box.left > frame.left - 1 && box.right < frame.right + 1
            && box.top > frame.top - 2 && box.bottom < frame.bottom + 2;
        if (size < 12.9) wrong.push(`${words.textContent}: ${size} px`);
        if (!inside) wrong.push(`${words.textContent}: outside`);
    }
    return wrong;
}"""
SMALL = """() => [...document.querySelectorAll("figure.moving :is(input, select, button)")]
    .filter((e) => e.type !== "checkbox" && e.offsetParent && e.getBoundingClientRect().height < 32)
    .map((e) => e.outerHTML)"""
UNNAMED = """() => [...document.querySelectorAll("figure.moving :is(input, select, button)")]
    .filter((e) => !(e.getAttribute("aria-label") || e.closest("label")?.textContent.trim()
        || e.textContent.trim()))
    .map((e) => e.outerHTML)"""
SHOWN = """() => Object.fromEntries([...document.querySelectorAll("figure.moving [data-shown]")]
    .map((e) => [e.dataset.shown, e.textContent]))"""


def drawn(page) -> str:
    """What the page shows of its figure: the drawing and the words below it."""
    return page.inner_html(".moving-drawing") + page.inner_text("figure.moving")


@pytest.mark.parametrize("name", NAMES)
def test_words_in_both_languages(bare, name):
    told = bare(name).evaluate(WORDS, name)
    english, chinese = told["words"]["en"], told["words"]["zh"]
    assert set(english) == set(chinese), set(english) ^ set(chinese)
    assert not set(told["needed"]) - set(english)
    assert not [word for word in english.values() if CHINESE.search(word)]
    for key, word in english.items():
        holes = re.findall(r"\{\w*\}", word)
        assert sorted(holes) == sorted(re.findall(r"\{\w*\}", chinese[key])), key


@pytest.mark.parametrize("language", HTML_LANG)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_on_a_phone(bare, name, language, theme):
    page = bare(name, language, theme, **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate(WRONG_WORDS) == []
    assert page.evaluate(SMALL) == page.evaluate(UNNAMED) == []
    if language == "zh":
        assert CHINESE.search(page.inner_text("figure.moving"))
    for end in ("min", "max"):  # the words of the largest settings have room as well
        for slider in page.query_selector_all(".moving-settings input[type=range]"):
            slider.evaluate(
                "(e, end) => { e.value = e[end]; e.dispatchEvent(new Event('input')); }", end
            )
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, end
        assert page.evaluate(WRONG_WORDS) == [], end


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_axe_finds_nothing(bare, name, theme):
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(bare(name, "en", theme), options=AXE)
    assert not found.response["violations"], found.generate_report()


@pytest.mark.parametrize("name", NAMES)
def test_by_keyboard(bare, name):
    page = bare(name)
    for setting in page.query_selector_all(".moving-settings :is(input, select)"):
        key, before = setting.get_attribute("name"), drawn(page)
        setting.focus()
        for press in ("ArrowRight", "ArrowLeft", "ArrowLeft", "ArrowDown", "Space"):
            page.keyboard.press(press)
            if drawn(page) != before:
                break
        assert drawn(page) != before, f"{name}: no key of {key} changes anything"
        asked = "(name) => Moving.shown(name, Moving.chosen(name))"
        assert page.evaluate(SHOWN).items() <= page.evaluate(asked, name).items()


@pytest.mark.parametrize("name", NAMES)
def test_its_frames(bare, name):
    page = bare(name, **PHONE, reduced_motion="reduce")
    assert page.locator(".moving-player").is_visible() == (name in STEPPED)
    if name not in STEPPED:
        return
    at = page.locator(".moving-player input")
    last = int(at.get_attribute("max"))
    assert last > 0
    page.locator(".moving-player input").fill("0")
    first = drawn(page)
    page.locator(".moving-drawing").focus()
    page.keyboard.press("ArrowRight")
    second = at.input_value()
    assert 0 < int(second) <= last and drawn(page) != first
    page.keyboard.press("ArrowLeft")
    assert at.input_value() == "0" and drawn(page) == first
    box = page.locator(".moving-drawing").bounding_box()
    page.locator(".moving-drawing").tap(position={"x": box["width"] * 0.7, "y": 12})
    assert at.input_value() == second
    page.locator(".moving-drawing").tap(position={"x": box["width"] * 0.1, "y": 12})
    assert at.input_value() == "0"
    page.locator(".moving-on").tap()
    page.locator(".moving-back").tap()
    assert at.input_value() == "0"
    page.locator(".moving-play").tap()
    page.wait_for_function("document.querySelector('.moving-player input').value > 0")
    page.locator(".moving-play").tap()
    paused = at.input_value()
    page.wait_for_timeout(1500)
    assert at.input_value() == paused
    at.fill(str(last))  # the whole way: every frame can be drawn
    for frame in range(last + 1):
        at.fill(str(frame))
        assert page.evaluate(WRONG_WORDS) == [], frame


@pytest.mark.parametrize("name", NAMES)
def test_nothing_plays_by_itself(bare, name):
    page = bare(name)
    before = drawn(page)
    page.wait_for_timeout(1500)
    assert drawn(page) == before


@pytest.mark.parametrize("name", NAMES)
def test_without_scripts_and_on_paper(bare, name):
    page = bare(name, java_script_enabled=False)
    assert page.locator("figure.moving > svg").bounding_box()["height"] > 50
    assert page.locator("figure.moving > svg").get_attribute("aria-label")
    page = bare(name, theme="dark")
    page.emulate_media(media="print")
    assert page.locator(".moving-drawing svg").is_visible()
    assert page.locator(".moving-settings, .moving-player, .moving-marks").count()
    for controls in page.locator(".moving-settings, .moving-player, .moving-marks").all():
        assert not controls.is_visible()


@pytest.mark.parametrize("language", HTML_LANG)
@pytest.mark.parametrize("name", NAMES)
def test_its_still_is_the_committed_one(bare, name, language):
    committed = moving.still(name, language).read_text("utf-8")
    made = draw(bare(name, language), name, language)
    assert made == committed, f"run: python book/stills.py {name}"


def test_numbers_are_rounded_as_a_script_rounds_them(browser):
    dice = random.Random(5)
    asked = [(dice.uniform(-1e3, 1e3), dice.randrange(5)) for _ in range(500)]
    asked += [(0.5, 0), (1.5, 0), (2.5, 0), (-2.5, 0), (1.005, 2), (0.0, 1), (-0.0, 1), (-0.04, 1)]
    page = browser.new_page()
    written = page.evaluate("(all) => all.map(([x, digits]) => x.toFixed(digits))", asked)
    page.close()
    assert written == [fixed(x, digits) for x, digits in asked]


@pytest.mark.parametrize("name", NAMES)
def test_its_weight(name):
    scripts = [moving.SCRIPTS / f"{each}.js" for each in ("kit", name)]
    assert sum(path.stat().st_size for path in scripts) < WEIGHT
