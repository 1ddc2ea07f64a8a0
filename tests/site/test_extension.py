"""The book's own Sphinx extension, piece by piece."""

import json
import pkgutil
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import record_gpu
from bookext import cards, contents, excerpts, generated, lexers, search, verified
from nbformat.v4 import new_code_cell, new_output
from pygments.token import Generic, Keyword, Name

import rankbook
from tests.unit.test_house import FLOORS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4 ranks after 1.3 s: gloo on cpu (no GPU here)\n", (4, "gloo")),
        ("2 ranks after 1.3 s: gloo on cpu\n4 ranks after 2 s: gloo on cpu", (4, "gloo")),
        ("%%torchrun --nproc-per-node=3\nprint(1)", (3, "")),
        ("%%torchrun --nproc_per_node 2 --cold\nprint(1)", (2, "")),
        ("n1: rank 0 of 2, node rank 0\nn2: rank 3 of 4, node rank 1\n", (4, "")),
        ("we started 8 ranks after 2 s of thought", (0, "")),
    ],
)
def test_placement_is_read_from_what_ran(text, expected):
    found = verified.placement(text)
    assert (found["ranks"], found["backend"]) == expected
    assert found["cores"] >= 1 and found["gpu"] == ""


def test_card_line_in_both_languages():
    words = {
        "ranks": {"one": "1 rank", "many": "{n} ranks", "none": "no rank"},
        "cores": {"one": "1 core", "many": "{n} cores"},
        "seconds": "{n} s",
    }
    run = {"ranks": 4, "backend": "gloo", "gpu": "", "cores": 2, "seconds": 38.4}
    run |= {"torch": "2.13.0", "date": "2026-11-21"}
    line = cards.describe(run, words)
    assert line == "4 ranks · 38 s · 2 cores · gloo · torch 2.13.0 · 2026-11-21"
    on_box = cards.describe(run | {"box": "1 × GPU"}, words)
    assert "2 cores (1 × GPU) · gloo" in on_box
    on_gpu = cards.describe(run | {"gpu": "4 × GPU", "backend": "nccl"}, words)
    assert on_gpu == "4 ranks · 38 s · 4 × GPU · nccl · torch 2.13.0 · 2026-11-21"


def test_gpu_runs_are_recorded_once(tmp_path, monkeypatch):
    monkeypatch.setattr(record_gpu, "gpu_names", lambda: "1 × GPU")
    cell = {
        "cell_type": "code",
        "source": ["%ranks start -n 2"],
        "outputs": [{"text": ["2 ranks after 1.0 s: gloo on cpu (1 GPU here)\n"]}],
        "metadata": {
            "execution": {
                "iopub.execute_input": "2026-11-21T10:00:00.000000Z",
                "shell.execute_reply": "2026-11-21T10:00:07.500000Z",
            }
        },
    }
    (tmp_path / "01_ring.ipynb").write_text(json.dumps({"cells": [cell]}))
    results = tmp_path / "chapters.json"
    for _ in range(2):
        record_gpu.main(tmp_path, results)
    (run,) = json.loads(results.read_text())
    assert (run["chapter"], run["ranks"], run["backend"]) == ("01_ring", 2, "gloo")
    assert (run["seconds"], run["date"], run["box"]) == (7.5, "2026-11-21", "1 × GPU")


def test_body_of_our_cell_magics_is_python():
    tokens = list(lexers.MagicLexer().get_tokens("%%ranks 0,2\nfor i in range(3):\n    pass\n"))
    assert (Keyword, "for") in tokens and (Name.Builtin, "range") in tokens
    for line, word in (("%%cluster --here name", "import"), ("%%cluster --on n1 name", "until")):
        tokens = list(lexers.MagicLexer().get_tokens(f"{line}\n{word} x\n"))
        assert word in [text for token, text in tokens if token in Keyword]
    other = list(lexers.MagicLexer().get_tokens("%%html\n<b>for</b>\n"))
    assert (Keyword, "for") not in other


def test_rank_prefixes_in_outputs():
    text = "[0-3] a [1] b\n[1] c\nx[2] d\n[0,2]\n"
    tokens = list(lexers.OutputLexer().get_tokens(text))
    prefixes = [piece for token, piece in tokens if token is Generic.Prompt]
    assert prefixes == ["[0-3]", "[1]", "[0,2]"]
    assert "".join(piece for _, piece in tokens) == text


def test_chinese_is_cut_the_same_way_as_the_query():
    cut = search.ChineseSearch({}).split("环形 all_reduce：带宽与延迟")
    assert {"环形", "带宽", "宽与", "与延", "延迟", "带", "all_reduce"} <= set(cut)
    assert search.bigrams("环") == ["环"]


def test_a_phrase_is_found_across_the_edge_of_a_link():
    cutter = search.ChineseSearch({})
    cutter.split("见[链接]里的魔法命令")
    assert "令就" in cutter.split("就是由这些")
    cutter.split("两个 rank")
    assert cutter.split("就是") == ["就是", "就", "是"]


def test_reference_lists_documented_public_names_only():
    names = generated.public_names("rankbook.live.torchrun.publish")
    assert "publish" in names and not any(name.startswith("_") for name in names)
    assert "time" not in names, "imported, not defined there"
    text = generated.modules("en", "rankbook.live.torchrun.publish")
    assert ".. automodule:: rankbook.live.torchrun.publish" in text


def test_a_package_that_runs_when_imported_is_left_out():
    names = generated.module_names("rankbook.programs")
    assert "rankbook.programs.elastic" in names
    assert not any(name.endswith("__main__") for name in names)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_room_has_a_page_of_its_own(language):
    folder = ROOT / "book" / language
    apart = {"parallel", "predict"}  # they hold rooms, and nothing besides
    rooms = {room.split(".")[-1]: f"rankbook.{room}" for room in FLOORS.keys() - apart}
    rooms["plots"] = "plots"
    assert {page.stem for page in (folder / "api").glob("*.md")} == set(rooms)
    index = (folder / "api.md").read_text("utf-8")
    for name, room in rooms.items():
        page = (folder / "api" / f"{name}.md").read_text("utf-8")
        marks = [match[2] for match in generated.MARK.finditer(page)]
        assert marks, f"api/{name}.md names no module"
        for mark in marks:
            assert f"{mark}.".startswith(f"{room}.") and find_spec(mark)
        assert f"[`{room}`](api/{name}.md)" in index


def test_a_module_stands_on_one_page_of_the_reference():
    shown = [name for mark in generated.documented() for name in generated.module_names(mark)]
    assert len(set(shown)) == len(shown)
    every = {info.name for info in pkgutil.walk_packages(rankbook.__path__, "rankbook.")}
    left = {name for name in every - set(shown) if not name.endswith(".__main__")}
    # the magics have a page of their own in the book
    inside = {name for name in left if name.startswith(("rankbook.live", "rankbook.magics"))}
    assert left - inside == {"rankbook.parallel", "rankbook.predict"}


def test_glossary_has_the_same_anchors_in_both_languages():
    english, chinese = (generated.glossary(language, "") for language in ("en", "zh"))
    assert "[process group]{#term-process-group} · 进程组" in english
    assert "[进程组]{#term-process-group} · process group" in chinese
    assert "[rank]{#term-rank}\n" in english


def test_contents_beside_source_code_are_drawn_once_for_each_depth():
    env, drawn, calls = SimpleNamespace(tocs={}), {}, []
    pages = ["_modules/a/b", "_modules/a/c", "_modules/d", "chapters/en/x", "chapters/en/y"]
    for page in pages:
        context = {}
        app = SimpleNamespace(env=env)
        contents.draw_contents(drawn, app, page, "page.html", context, None)
        draw = lambda page=page, **_: calls.append(page) or f"<i>{page}</i>"  # noqa: E731
        context["contents"](draw, depth=1)
    assert calls == ["_modules/a/b", "_modules/d", "chapters/en/x", "chapters/en/y"]


def test_an_excerpt_shows_what_the_kernel_sent_in_pieces_as_one_text():
    pieces = [new_output("stream", name="stdout", text=text) for text in ("[0] 1\n", "[1] 2\n")]
    cell = new_code_cell("print(x)", outputs=pieces)
    for _ in range(2):  # the second excerpt of a cell is like the first
        shown = excerpts.shown_cell(cell).children[1]
        assert shown.astext() == "[0] 1\n[1] 2"
