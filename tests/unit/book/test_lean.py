"""Pages made lean: what goes, what must stay, and what formulas become."""

import re
import xml.etree.ElementTree as ET

import pytest
from bookext import addresses, formulas, lean_css, lean_html, lean_svg

PAGE = '<main id="here"><p class="a b">x</p><a href="#here" class=\'c\'>y</a></main>'
SCRIPT = "element.classList.add('made'); const never = 1; button.dataset.now = `later gone`;"


def kept(sheet: str) -> str:
    names = lean_css.Names()
    names.add_page(PAGE)
    names.add_script(SCRIPT)
    return lean_css.lean([sheet], names)


@pytest.mark.parametrize(
    "selector",
    [
        "p.a", ".c:hover", "#here", "a[href]", "main > p::before", "html body", "*", ".made .later",
        "p:not(.nowhere)", ":is(.nowhere, .a)", '[class*="b"]', "main:has(> p)", "a:focus-visible",
    ],
)  # fmt: skip
def test_a_rule_stays_that_an_element_may_use(selector):
    assert kept(f"{selector} {{ color: red }}") == f"{selector}{{color:red}}"


@pytest.mark.parametrize(
    "selector",
    ["p.nowhere", "#gone-not", ".a .never", '[class*="zz"]'],
)
def test_a_rule_goes_that_none_can_use(selector):
    assert kept(f"{selector} {{ color: red }}") == ""


def test_of_a_list_only_the_selectors_that_can_be():
    assert kept(".a, .nowhere, video.never { margin: 0 }") == ".a{margin:0}"


def test_groups_and_variables_go_with_what_used_them():
    sheet = """
    :root { --one: 1px; --two: var(--three); --three: 3px }
    @media print { .a { margin: var(--one) } .nowhere { color: blue } }
    @media print { .nowhere { color: blue } }
    @font-face { font-family: X; src: url(x.woff2) }
    @keyframes stays { from { top: 0 } to { top: 1px } }
    .b { animation: stays 1s; content: "  }  "; background: url("a b.svg") !important }
    """
    text = kept(sheet)
    assert text == (
        ":root{--one:1px}\n@media print{.a{margin:var(--one)}}\n"
        "@keyframes stays{from{top:0}to{top:1px}}\n"
        '.b{animation:stays 1s;content:"  }  ";background:url("a b.svg")!important}'
    )


def test_rules_within_rules():
    assert kept(".a { color: red; .b { margin: 0 } .nowhere { top: 0 } }") == (
        ".a{color:red;.b{margin:0}}"
    )


def test_variables_stay_that_a_page_or_a_script_names():
    names = lean_css.Names()
    names.add_page('<svg><path fill="var(--p-ink, #000)" style="stroke: var( --own )"/></svg>')
    names.add_script("color(`var(--made-${tone})`)")
    sheet = ":root { --p-ink: #1; --own: #2; --made-good: #3; --p-other: #4; --made: #5 }"
    assert lean_css.lean([sheet], names) == ":root{--p-ink:#1;--own:#2;--made-good:#3}"


PYGMENTS = """
html[data-theme="light"] .highlight { background: #fff; color: #333 }
html[data-theme="light"] .highlight .n { color: #333 } /* Name */
html[data-theme="light"] .highlight .k { color: #00f } /* Keyword */
html[data-theme="dark"] .highlight { background: #222; color: #eee }
html[data-theme="dark"] .highlight .n { color: #eee } /* Name */
html[data-theme="dark"] .highlight .k { color: #eee } /* Keyword */
"""


def test_spans_that_colour_nothing_go(tmp_path):
    plain = lean_html.plain_classes(PYGMENTS)
    assert "n" in plain and "k" not in plain
    code = '<pre><span class="k">if</span> <span class="n">a</span>:\n    b\n</pre>'
    text = '<title>t</title>\n\n   <p>  <em><span class="n"><span class="pre">c</span></span></em>'
    lean = lean_html.lean(text + code, tmp_path / "x.html", plain)
    assert lean == (
        '<title>t</title>\n<p>  <em>c</em><pre><span class="k">if</span> a:\n    b\n</pre>\n'
    )


def test_a_summary_holds_phrases(tmp_path):
    text = '<summary aria-label="Toggle hidden content">\n<p class="x">Show</p></summary><p>P</p>'
    lean = lean_html.lean(text, tmp_path / "x.html", set())
    assert lean == '<summary>\n<span class="x">Show</span></summary><p>P</p>\n'


def test_images_say_how_large_they_are(tmp_path):
    (tmp_path / "a b.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + bytes(8) + bytes([0, 0, 1, 0, 0, 0, 0, 9])
    )
    (tmp_path / "c.svg").write_text('<svg viewBox="0 0 64 32.4"></svg>')
    page = tmp_path / "x.html"
    assert (
        lean_html.sized('<img src="a%20b.png">', page)
        == '<img width="256" height="9" src="a%20b.png">'
    )
    assert (
        lean_html.sized('<img src="c.svg"/>', page) == '<img width="64" height="32" src="c.svg"/>'
    )
    for other in ('<img width="3" src="c.svg">', '<img src="none.png">', '<img src="data:,x">'):
        assert lean_html.sized(other, page) == other


def test_a_picture_in_fewer_letters():
    assert lean_svg.path("M 83.68 41.34 L 83.68 55.16 L 85.01 55.16 L 85.01 41.34 z") == (
        "M83.68 41.34V55.16H85.01V41.34z"
    )
    assert lean_svg.path("M 0 1 Q 1 2 3 4.04 L -.5 1e-3") == "M0 1Q1 2 3 4.04L-.5 1e-3"
    for other in ("m 1 2 l 3 4", "M 1 2 A 5 5 0 0 1 6 7", ""):
        assert lean_svg.path(other) == other


def test_a_colour_of_the_palette_is_named_alone():
    lean = lean_svg.lean('<svg><g style="fill: var(--p-ink, #123456)"></g></svg>')
    assert lean == '<svg><g style="fill: var(--p-ink)"></g></svg>'


def test_formulas_are_mathml_and_keep_their_tex():
    block = ET.fromstring(formulas.block(r"\frac{a}{b}  \text{two words} < 28{,}782"))
    space = {"m": "http://www.w3.org/1998/Math/MathML"}
    assert block.get("displaystyle") == "true" and block.find(".//m:mfrac", space) is not None
    assert block.find(".//m:annotation", space).text == r"\frac{a}{b} \text{two words} < 28{,}782"
    assert block.find(".//m:mrow/m:mrow/m:mo", space).get("rspace") == "0"
    assert not re.search(r"&amp;#", formulas.inline(r"a < b"))


def test_signs_and_functions_have_the_space_that_tex_gives_them():
    assert '<mo lspace="0" rspace="0">/</mo>' in formulas.inline("a/b")
    for tex, spaces in ((r"\ln 2", 1), (r"2 \log_2 n", 1), (r"\ln(2)", 0)):
        assert formulas.inline(tex).count("<mspace") == spaces, tex


def test_a_formula_in_its_own_line_breaks_before_signs_that_are_in_no_brackets():
    text = formulas.block(r"-a = b (c + d) + \frac{1 + 2}{3}, \qquad e \times f")
    parts = ["".join(math.itertext()) for math in ET.fromstring(f"<x>{text}</x>")]
    tex = r"-a = b (c + d) + \frac{1 + 2}{3}, \qquad e \times f"
    assert [part.replace("\N{MINUS SIGN}", "-") for part in parts] == [
        f"-a{tex}", "=b(c+d)", "+1+23,", "e", "×f"
    ]  # fmt: skip
    assert formulas.inline("a + b").count("<math") == 1


def test_addresses_of_a_page_are_absolute():
    head = addresses.head("chapters/zh/24_bubble", "https://example.org/ranks/zh/", "zh")
    assert re.findall(r'hreflang="(.*?)" href="(.*?)"', head) == [
        ("x-default", "https://example.org/ranks/"),
        ("en", "https://example.org/ranks/en/chapters/en/24_bubble.html"),
        ("zh-CN", "https://example.org/ranks/zh/chapters/zh/24_bubble.html"),
    ]
