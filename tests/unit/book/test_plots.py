"""Figures of cells as part of a page: light, in the palette's variables, in the page's language."""

import re

import pytest
from bookext import labels
from bookext.plots import plot, translate_heads
from docutils import nodes
from docutils.utils import new_document
from matplotlib import pyplot as plt

import plots
from plots.theme import color
from plots.vector import _Drawing, svg


@pytest.fixture
def drawing():
    with plots.style():
        figure, axes = plt.subplots(figsize=(4, 2), layout="constrained")
    axes.plot([1, 2, 3], [0.5, 0.25, 0.125], "o-", color=color(0))
    axes.set(xlabel="ranks", ylabel="seconds")
    axes.text(2, 0.3, "3 ranks & more")
    yield svg(figure)
    plt.close(figure)


def test_a_figure_becomes_a_light_element(drawing):
    page, wrong = plot(drawing, "en", "plot-1", "Falling <times>")
    assert not wrong
    assert page.startswith("<svg ") and 'class="plot" role="img"' in page
    assert 'aria-label="Falling &lt;times&gt;" viewBox="0 0 288 144"' in page
    assert 'width="432" height="216"' in page  # one and a half pixels a unit
    assert "var(--p-rank-0, #1f6cab)" in page and "3 ranks &amp; more" in page
    assert len(page) < 0.6 * len(drawing)


@pytest.mark.parametrize("needless", ["font-family", "<style", "metadata", "xlink", r"\d\.\d{3}"])
def test_what_a_page_does_not_need_is_gone(drawing, needless):
    page, _ = plot(drawing, "en", "plot-1", "words")
    assert not re.search(needless, page)


def test_ids_are_the_pictures_own_and_all_used(drawing):
    page, _ = plot(drawing, "en", "plot-7", "words")
    made = re.findall(r' id="([^"]+)"', page)
    used = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', page)
    assert made and set(made) == {one or other for one, other in used}
    assert all(name.startswith("plot-7-") for name in made)


def test_the_paper_of_a_notebook_is_not_the_pages(drawing):
    assert "#fefefe" in drawing
    assert "#fefefe" not in plot(drawing, "en", "plot-1", "words")[0]


def test_chinese_pages_have_chinese_labels_and_hear_what_is_missing(drawing):
    page, wrong = plot(drawing, "zh", "plot-1", "words")
    assert wrong == ["no file of book/labels translates '3 ranks & more'"]
    assert ">秒<" in page and ">seconds<" not in page


def test_hollow_marks_stay():
    with plots.style():
        figure, axes = plt.subplots(figsize=(2, 1))
        axes.plot([1, 2], [1, 2], "o", ls="", mfc="none", mec=color(1))
    page, _ = plot(svg(figure), "en", "plot-1", "words")
    assert len(re.findall(r"<use [^>]*", page)) >= 2 and "fill-opacity: 0" in page
    plt.close(figure)


def test_words_that_stick_out_and_foreign_colours_are_told():
    with plots.style():
        figure, axes = plt.subplots(figsize=(2, 1))
        axes.text(0.9, 0.5, "words beyond the edge", color="#123456")
    _, wrong = plot(svg(figure), "en", "plot-1", "words")
    assert wrong == ["'words beyond the edge' sticks out", "#123456 is not in the palette"]
    plt.close(figure)


def test_only_figures_of_the_book_are_drawings():
    assert type(plt.figure()) is not _Drawing
    with plots.style():
        assert type(plt.figure()) is _Drawing
    plt.close("all")


def test_the_same_figure_is_the_same_text(drawing):
    with plots.style():
        figure, axes = plt.subplots(figsize=(4, 2), layout="constrained")
    axes.plot([1, 2, 3], [0.5, 0.25, 0.125], "o-", color=color(0))
    axes.set(xlabel="ranks", ylabel="seconds")
    axes.text(2, 0.3, "3 ranks & more")
    assert svg(figure) == drawing
    plt.close(figure)


def test_heads_of_tables_are_translated_where_the_catalogue_has_them(monkeypatch):
    monkeypatch.setattr(labels, "entries", lambda: {"seconds": "秒"})
    document = new_document("page")
    document += nodes.raw("", plots.Table(["way", "seconds"], [["x", "seconds"]])._repr_html_())
    translate_heads(document)
    assert "<th>way</th><th>秒</th>" in document.astext()
    assert "<td>seconds</td>" in document.astext()


def test_a_table_says_in_chinese_what_is_not_measured_yet():
    document = new_document("page")
    table = plots.Table(["where", "measured"], [["GPU", "not measured yet"]])
    document += nodes.raw("", table._repr_html_())
    translate_heads(document)
    assert "<td>GPU</td><td>尚未测量</td>" in document.astext()
