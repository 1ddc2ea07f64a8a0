"""The faults under Monarch: what counts as a cause, what a recording says, and life without it."""

import ast
import json
import textwrap
from pathlib import Path

import pytest

from rankbook.live.failure.report import MISMATCH
from rankbook.programs import one_controller
from rankbook.programs.one_controller import running
from rankbook.programs.one_controller.faults import CAUSES, sentences
from tests.live.report import blocked, died, gone, raised, stopped

ROOT = Path(__file__).parents[3]
BLOCKED = blocked(0, "all_reduce(float32 [4])", 2)
TIMED_OUT = "ActorError: RuntimeError: [unbound_buffer.cc:78] Timed out waiting 10000ms for recv"
SUPERVISED = [
    "The actor <root>.<Rank ranks{'gpus': 1/2}> and all its descendants have failed:",
    "  the process this actor was running on failed: Killed(sig=9)",
]


def test_without_monarch_the_program_says_so_in_one_sentence(monkeypatch, capfd):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("os._exit", _leave)
    with pytest.raises(SystemExit) as end:
        one_controller.main(["--fault", "raises"])
    said = capfd.readouterr().err.strip().splitlines()
    assert end.value.code == 2 and len(said) == 1
    assert said[0].startswith("one_controller: Monarch is not here; `pip install torchmonarch`")


def _leave(status: int):
    raise SystemExit(status)


@pytest.mark.parametrize(
    ("fault", "said", "seen"),
    [
        ("raises", ["rank 1: ValueError: no data on rank 1", "rank 0 is in line 4"], "first"),
        ("raises", [TIMED_OUT, raised(1, "ValueError: no data on rank 1")], "later"),
        ("raises", [TIMED_OUT], "nothing"),
        ("killed", ["KeyboardInterrupt", sentences(SUPERVISED)[1]], "later"),
        ("killed", [gone(1, died(-9))], "first"),
        ("killed", SUPERVISED[1:], "without a rank"),
        ("shape", [MISMATCH], "first"),
        ("shape", ["Received data size doesn't match expected size. 8 vs 4"], "first"),
        ("shape", ["RuntimeError: Connection closed by peer"], "nothing"),
        ("hangs", [BLOCKED, stopped(1, "time.sleep(600)")], "first"),
        ("hangs", [BLOCKED], "nothing"),
    ],
)
def test_the_verdict_on_what_was_said(fault, said, seen):
    assert one_controller.verdict(fault, said) == seen


def test_an_unknown_fault_has_no_verdict():
    with pytest.raises(KeyError):
        one_controller.verdict("sulks", ["rank 1"])


def test_a_row_has_what_was_said_and_the_lines_about_the_cause():
    case = json.dumps({"fault": "killed", "way": "first", "said": ["KeyboardInterrupt"]})
    row = running.row_of("killed", "first", f"noise\n{case}\n", "\n".join([*SUPERVISED, "noise"]))
    assert row["printed"] == [" ".join(line.strip() for line in SUPERVISED)]
    assert row["seen"] == "later"


def test_a_case_that_breaks_is_told_by_its_last_line():
    with pytest.raises(RuntimeError, match="killed, first did not end as it should: no wheels"):
        running.row_of("killed", "first", "", "Traceback\nno wheels\n")


def test_a_long_line_keeps_its_two_ends():
    line = "begin" + 500 * "x" + "end"
    short = running.shorten(line)
    assert short.startswith("begin") and short.endswith("end") and len(short) < 250
    assert running.shorten("short") == "short"


def test_sources_are_read_without_monarch():
    rank = one_controller.source("Rank")
    assert rank.startswith("class Rank(Actor):") and "dist.all_reduce(x)" in rank
    assert one_controller.source("Careful.step").lstrip().startswith("async def step")
    assert one_controller.source("Rank.step").lstrip().startswith("@endpoint")
    with pytest.raises(KeyError, match=r"no Rank\.fly"):
        one_controller.source("Rank.fly")


def test_lines_of_code_are_counted_without_texts_and_blanks():
    text = '@d\ndef f():\n    """A text\n    of two."""\n\n    # a remark\n    return """x\ny"""\n'
    assert one_controller.code_lines(text) == 4  # the decorator, the head, and two of the string
    assert one_controller.code_lines(one_controller.source("First")) == 7


def body(source: str, name: str) -> str:
    """What a function of a source does, whether it is a method or not."""
    tree = ast.parse(textwrap.dedent(source))
    (found,) = [p for p in ast.walk(tree) if getattr(p, "name", "") == name]
    statements = [p for p in found.body if not isinstance(getattr(p, "value", None), ast.Constant)]
    return "\n".join(map(ast.unparse, statements)).replace("self.rank", "rank")


def cell(name: str) -> str:
    page = json.loads((ROOT / "chapters/en/A2_one_controller.ipynb").read_text("utf-8"))
    (found,) = [c for c in page["cells"] if c["id"] == name]
    return "".join(found["source"])


def test_both_sides_commit_the_same_faults():
    on_the_page = body(cell("step").replace("%%ranks", ""), "step")
    assert on_the_page == body(one_controller.source("Rank.step"), "step")
    assert all(f"fault == '{fault}'" in on_the_page for fault in CAUSES)


def recorded() -> dict:
    return json.loads((ROOT / "book/results/one_controller-cpu-2.json").read_text("utf-8"))


def test_the_recording_has_every_fault_in_every_way_and_its_provenance():
    result = recorded()
    ways = ["live ranks", *one_controller.WAYS]
    assert [(r["fault"], r["way"]) for r in result["rows"]] == [
        (fault, way) for fault in one_controller.FAULTS for way in ways
    ]
    assert {"what", "where", "when", "command", "libraries", "rival", "load"} <= result.keys()
    for row in result["rows"]:
        assert row["seen"] == one_controller.verdict(row["fault"], row["said"] + row["printed"])
        assert not any(part in str(row) for part in ("/root", "/tmp", "/work", "/home"))


ROW = {"fault": "killed", "way": "careful", "said": ["rank 1: dead"], "printed": ["a"]}
ROW |= {"seen": "first", "repair": "new processes"}
TRIED = ROW | {"seconds": 0.355, "next": True, "repaired": 2.0}
KEPT = ROW | {"median": 0.355, "repeats": 3, "next": "3 of 3", "repair, s": 2.0}


def test_the_reader_of_a_recording_and_of_a_fault_tried_here():
    said = "[careful] after 0.35 s\n    rank 1: dead\n    printed: a"
    assert one_controller.format_row(TRIED) == one_controller.format_row(KEPT) == said
    head, lines = one_controller.faults_table([TRIED])
    assert head == ["fault", "live ranks", "Monarch, first", "Monarch, careful"]
    assert lines == one_controller.faults_table([KEPT])[1]
    assert lines[1] == ["killed", "–", "–", "first, 0.35 s; new processes, 2.00 s"]


@pytest.mark.parametrize(
    ("next_step", "says"), [("3 of 3", "works"), ("2 of 3", "next step fails")]
)
def test_a_row_without_a_repair_says_whether_the_next_step_works(next_step, says):
    row = KEPT | {"repair": None, "next": next_step}
    assert one_controller.faults_table([row])[1][1][3] == f"first, 0.35 s; {says}"


def test_what_was_said_is_wrapped_and_cut():
    said = one_controller.format_row(TRIED | {"said": ["begin " + 100 * "word " + "end"]})
    assert max(map(len, said.splitlines())) <= 76
    assert "begin" in said and "…" in said and "end" in said and len(said) < 300


def test_costs_stand_side_by_side():
    row = {"cost": "start", "unit": "s", "median": 2.51, "p10": 2.4, "p90": 2.6}
    rows = [row | {"way": "live ranks"}, row | {"way": "plain cell", "cost": "a cell"}]
    assert one_controller.costs_table(rows, {"live ranks": 13}) == (
        ["cost", "live ranks", "plain cell"],
        [["start", "2.5 s (2.4–2.6)", "–"], ["a cell", "–", "2.5 s (2.4–2.6)"],
         ["lines of code", "13", "–"]],
    )  # fmt: skip


def test_the_careful_program_is_the_longer_one():
    lines = one_controller.written()
    assert lines["Monarch, first"] < lines["Monarch, careful"] < 90
