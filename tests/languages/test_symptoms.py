"""The page Symptoms: its entries are whole in both languages, and lead to executed cells."""

import json
from functools import cache
from pathlib import Path

import pytest
import typography

from rankbook.symptoms.entries import Symptom, every, groups

ROOT = Path(__file__).resolve().parents[2]
LANGUAGES = ("en", "zh")
MOST = 420  # characters of English that one entry may take for what it means, or what to do


@cache
def cells(language: str, chapter: str) -> dict[str, dict]:
    path = ROOT / "chapters" / language / f"{chapter}.ipynb"
    assert path.exists(), f"there is no chapter {chapter}"
    return {cell["id"]: cell for cell in json.loads(path.read_text("utf-8"))["cells"]}


@pytest.mark.parametrize("symptom", every(), ids=lambda s: s.id)
def test_an_entry_leads_to_cells_that_are_executed(symptom: Symptom):
    assert symptom.cells
    for address in symptom.cells:
        chapter, _, name = address.partition("#")
        for language in LANGUAGES:
            cell = cells(language, chapter).get(name)
            assert cell, f"{language}: {chapter} has no cell {name!r}"
            assert cell["cell_type"] == "code", f"{address} is no code"
            assert "skip-execution" not in cell["metadata"].get("tags", [])


@pytest.mark.parametrize("symptom", [s for s in every() if s.kind != "message"], ids=lambda s: s.id)
def test_the_first_cell_proves_a_hang_or_a_number(symptom: Symptom):
    assert symptom.source == "cell"
    chapter, _, name = symptom.cells[0].partition("#")
    source = "".join(cells("en", chapter)[name]["source"])
    assert symptom.proof and symptom.proof in source, f"{symptom.cells[0]} no longer says it"


@pytest.mark.parametrize("symptom", every(), ids=lambda s: s.id)
def test_an_entry_is_whole_in_both_languages(symptom: Symptom):
    for said in (symptom.said, symptom.means, symptom.do):
        assert set(said) == set(LANGUAGES) and all(text.strip() for text in said.values())
    for text in (*symptom.means.values(), *symptom.do.values()):
        assert text == " ".join(text.split()) and text[-1] in ".。", text
    assert max(len(symptom.means["en"]), len(symptom.do["en"])) <= MOST


def test_the_same_code_in_both_languages():
    """What stands in code in an English sentence stands in the Chinese one."""
    for symptom in every():
        for said in (symptom.means, symptom.do):
            code = [set(said[language].split("`")[1::2]) for language in LANGUAGES]
            assert code[0] <= code[1], symptom.id


def test_chinese_typography():
    avoided = typography.avoided_words(ROOT)
    texts = [(name, title["zh"]) for name, title in groups().items()]
    for s in every():
        texts += [(s.id, s.means["zh"]), (s.id, s.do["zh"])]
        texts += [(s.id, s.said["zh"])] if s.kind != "message" else []
    wrong = [(name, *mark) for name, text in texts for mark in typography.marks(text, avoided)]
    assert not wrong


def test_groups_have_titles():
    assert {s.group for s in every()} == set(groups())
    assert all(set(title) == set(LANGUAGES) for title in groups().values())
