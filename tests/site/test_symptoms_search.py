"""A pasted message finds its entry in the built book, and the entry leads to its cell."""

from itertools import pairwise
from urllib.parse import quote, unquote

import pytest
from bs4 import BeautifulSoup

from rankbook.symptoms import every, find

pytestmark = pytest.mark.timeout(1800)  # the first test may have to build the book
PASTED = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/me/train.py", line 41, in <module>
[rank1]: RuntimeError: [/b/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for\
 send operation to complete
[rank3]:   File "/venv/lib/python3.12/site-packages/torch/nn/functional.py", line 3555
[rank3]: IndexError: Target 50257 is out of bounds.
"""
CAUSE = "target-out-of-bounds"  # and not the rank that waited for it
UNKNOWN = "ValueError: no data on rank 1"
LANGUAGES = pytest.mark.parametrize("language", ["en", "zh"])


def page_of(language: str) -> str:
    return f"{language}/book/{language}/symptoms.html"


@LANGUAGES
def test_the_search_shows_the_entry_of_a_pasted_message_first(visit, language):
    page = visit(f"{language}/search.html?q={quote(PASTED)}")
    link = page.wait_for_selector(".symptom-found a")
    assert link.get_attribute("href").endswith(
        f"book/{language}/symptoms.html#target-out-of-bounds"
    )
    above = page.evaluate("""() => document.querySelector('.symptom-found')
        .compareDocumentPosition(document.getElementById('search-results'))""")
    assert above == 4  # the results follow it
    link.click()
    page.wait_for_selector(".symptoms dt :target")
    assert "Target 256 is out of bounds." in page.inner_text(".symptoms dt:has(:target)")


@LANGUAGES
def test_other_searches_show_no_entry(visit, language):
    page = visit(f"{language}/search.html?q={quote(UNKNOWN)}")
    page.wait_for_function("document.querySelector('.search-summary')?.innerText.length > 0")
    assert page.query_selector(".symptom-found a") is None


@LANGUAGES
def test_the_page_looks_up_what_is_pasted(visit, site, language):
    page = visit((site / page_of(language)).as_uri())  # from a file, too
    page.fill("textarea", PASTED)
    assert page.get_attribute(".symptom-found a", "href").endswith(f"#{CAUSE}")
    page.fill("textarea", UNKNOWN)
    assert page.inner_text(".symptom-found") and not page.query_selector(".symptom-found a")


def test_the_browser_finds_what_python_finds(visit):
    page = visit(page_of("en"))
    messages = [s.message() for s in every() if s.kind == "message"]
    texts = [f"[default0]:Error: {m} [/x/y.cc:{n}]" for n, m in enumerate(messages)]
    texts += [f"{a} x\n[rank0]: {b}" for a, b in pairwise(messages)]
    found = page.evaluate("texts => texts.map(text => symptomOf(text)?.id ?? null)", texts)
    expected = [symptom and symptom.id for symptom in map(find, texts)]
    assert found == expected and set(expected) >= {s.id for s in every() if s.kind == "message"}


@LANGUAGES
def test_every_entry_has_its_address_and_leads_to_its_cells(site, language):
    pages = {}

    def read(path):
        if path not in pages:
            pages[path] = BeautifulSoup(path.read_text("utf-8"), "html.parser")
        return pages[path]

    here = site / page_of(language)
    terms = {term.find(id=True)["id"]: term for term in read(here).select(".symptoms dt")}
    assert list(terms) == [symptom.id for symptom in every()]
    for symptom in every():
        links = terms[symptom.id].find_next_sibling("dd").select(".symptom-cells a")
        assert len({link.text for link in links}) == len(symptom.cells)
        for link in links:
            path, _, anchor = unquote(link["href"]).partition("#")
            cell = read((here.parent / path).resolve()).find(id=anchor)
            assert cell and cell.select_one(".cell_input"), f"{symptom.id}: {link['href']}"
