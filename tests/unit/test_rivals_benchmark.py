"""The benchmark of the rivals: its verdicts, its log and its table. It starts no rival."""

import json

import pytest

from benchmarks import rival_table, rivals
from benchmarks.rival_case import BUSY, ENDED, Case
from benchmarks.rival_faults import FAULTS, judge, shown, works
from benchmarks.rival_systems import SYSTEMS
from rankbook.live.failure.report import INTERRUPTED, MISMATCH
from tests.live.report import blocked, died, fails, gone, left_waiting, raised

BY_NAME = {fault.name: fault for fault in FAULTS}
VICTIM = "RuntimeError: [pair.cc:553] Connection closed by peer [127.0.0.1]:7592."
CAUSE = "ValueError: rank one is unhappy"
RAISED = BY_NAME["ValueError"]


def test_there_are_twelve_faults_and_each_has_a_name():
    assert len(BY_NAME) == len(FAULTS) == 12
    assert len({system.name for system in SYSTEMS}) == len(SYSTEMS) == 7
    assert all("==" in system.requires for system in SYSTEMS if "%%" not in system.name)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_cells_own_source_is_no_cause(fault):
    lines = [f"----> {n} {line}" for n, line in enumerate(fault.code.splitlines(), 1)]
    source = "\n".join(["[Rank 1 — error]", "Cell In[4], line 2", *lines])
    assert judge(fault, source, "") == "nothing"
    assert judge(fault, source, f"{source}\n{VICTIM}") == "wrong"


@pytest.mark.parametrize(
    ("text", "error", "verdict"),
    [
        ("", f"{fails(raised(1, CAUSE))}\n{blocked(0, 'all_reduce')}", "right"),
        ("", fails(raised(0, CAUSE)), "wrong"),
        ("", f"{raised(0, VICTIM)}\n{raised(1, CAUSE)}", "among others"),
        (f"[1:execute]\n{CAUSE}\n[0:execute]\n{VICTIM}", "2 errors", "right"),
        (f"[0:execute]\n{VICTIM}\n[1:execute]\n{CAUSE}", "2 errors", "among others"),
        (f"[Rank 1 — error]\nCell In[4], line 1\n{CAUSE}", "", "right"),
        (f"[1] {CAUSE}", f"[0]:\n rank : 0 (local_rank: 0)\n {VICTIM}", "among others"),
        ("", f"[0]:\n rank : 0 (local_rank: 0)\n {VICTIM}", "wrong"),
        ("Error executing distributed code: Timeout waiting for responses to 58", "", "wrong"),
        ("[Rank 0 — aborted]", "", "nothing"),
        ("[Rank 1 — error]\n" + CAUSE, "reply: GroupError: cell failed on rank 0", "right"),
        ("", "", "nothing"),
    ],
)
def test_what_a_reader_sees(text, error, verdict):
    assert judge(RAISED, text, error) == verdict


def test_a_death_is_told_by_its_signal_and_its_rank():
    killed, fell = BY_NAME["SIGKILL"], BY_NAME["segmentation fault"]
    torch = "rank      : {} (local_rank: {})\nexitcode  : -9 (pid: 3)  (SIGKILL)"
    assert judge(killed, "", torch.format(1, 1)) == "right"
    assert judge(killed, "", torch.format(0, 0)) != "right"
    assert judge(fell, "", torch.format(1, 1)) == "nothing"
    assert judge(fell, "", "rank 1 died of SIGSEGV") == "right"
    monarch = "SupervisionError: Rank ranks{'gpus': 1/2}> failed:\n process: Killed(sig=9)"
    assert judge(killed, "", monarch) == "right" and judge(fell, "", monarch) == "wrong"


def test_where_nobody_is_at_fault_no_rank_is_asked_for():
    shapes = BY_NAME["two shapes"]
    assert judge(shapes, "", fails(MISMATCH)) == "right" and judge(shapes, "", VICTIM) == "wrong"


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        ("os._exit(0)", gone(1, died(0))),
        ("two shapes", MISMATCH),
        ("rank 1 skips it", left_waiting(1, 0, "all_reduce(float32 [2])", 2)),
        ("endless loop, stopped", INTERRUPTED),
    ],
)
def test_the_causes_in_our_own_reports_are_seen(fault, line):
    assert judge(BY_NAME[fault], "", fails(line)) == "right"


def test_the_seconds_until_the_cause_is_seen():
    text = f"Launching.\n[1:execute]\n{CAUSE}\n[0:execute]\n{VICTIM}"
    marks = [(0.1, 11), (0.4, text.index("[0:")), (10.0, len(text))]
    assert shown(RAISED, text, marks) == 0.4
    assert shown(RAISED, VICTIM, [(1.0, len(VICTIM))]) is None


def test_a_next_cell_works_if_every_sum_is_right():
    assert works("[0-1] sum=2") and works("sum=2\nsum=2")
    assert not works("sum=2\nsum=3") and not works("sum=1") and not works("")


def case(system: str, seconds: float, end: str = ENDED, error: str = CAUSE, left: int = 0) -> dict:
    right = error == CAUSE
    text = raised(1, error)
    about = (system, RAISED.name, end, seconds, "stale", right, right, left, [(0.2, len(text))])
    return Case(*about, text, "", "").as_dict()


@pytest.fixture
def cases(tmp_path):
    """As a log has them, one broken off and one judged by an older rule."""
    ours = [case("%%ranks", s) for s in (0.5, 0.4, 0.6)]
    slow = [case("ipyparallel", s, left=13) for s in (10.5, 10.4, 11.0)]
    lost = [case("nbdistributed", 35.0, BUSY, VICTIM, left=2) for _ in range(2)]
    lost.append(case("nbdistributed", 30.1, ENDED, "", left=0))
    log = tmp_path / "cases.jsonl"
    log.write_text("".join(json.dumps(c) + "\n" for c in lost + slow + ours), "utf-8")
    return rivals.read(log)


def test_rows_of_a_log(cases):
    ours, slow, lost = rivals.table(cases)
    assert [row["system"] for row in (ours, slow, lost)] == [
        "%%ranks", "ipyparallel", "nbdistributed",
    ]  # fmt: skip
    assert (ours["sees"], ours["agree"], ours["median"], ours["seen"]) == (
        "right",
        "3 of 3",
        0.5,
        0.2,
    )
    assert (lost["sees"], lost["agree"], lost["ended"]) == ("wrong", "2 of 3", "1 of 3")
    assert (lost["failed"], lost["next"], lost["left"]) == ("0 of 3", "0 of 3", 2)
    assert lost["median"] == 30.1 and "seen" not in lost


def result_of(cases: list[dict]) -> dict:
    return {
        "rows": rivals.table(cases), "load": {"lowest": 1.0, "highest": 4.5}, "limit": 35.0,
        "when": "2026-11-22", "where": "2 CPU cores", "libraries": {"torch": "2.13.0"},
        "systems": {"ipyparallel": "ipyparallel==9.2.0"}, "cases at a time": 3,
        "command": "python -m benchmarks.rivals",
    }  # fmt: skip


def test_the_table_has_short_cells_and_says_what_it_rests_on(cases):
    page = rival_table.table(result_of(cases), "en")
    lines = page.splitlines()
    assert lines[0] == "| fault of rank 1, or of both | `%%ranks` | ipyparallel | nbdistributed |"
    row = "| ValueError | right, 0.5 s | right 0.2 s, ends 10.5 s |"
    assert lines[2] == f"{row} wrong 2 of 3, 30.1 s, no end 2 of 3 |"
    assert lines[3].endswith("| 3 of 3 | 3 of 3 | 0 of 3 |")
    assert lines[5] == "| processes left by a killed kernel | 0 | 13 | 2 |"
    assert "2026-11-22" in page and "ipyparallel 9.2.0" in page and "load 1–4.5" in page


def test_both_languages_say_the_same(cases):
    english, chinese = rival_table.WORDS["en"], rival_table.WORDS["zh"]
    assert english.keys() == chinese.keys()
    assert set(chinese["faults"]) <= set(BY_NAME)
    page = rival_table.table(result_of(cases), "zh")
    assert "正确 0.2 s，10.5 s 结束" in page and "3 次中 2 次" in page


def test_a_page_is_filled_between_its_marks_only(cases):
    begin, end = rival_table.MARKS
    page = f"before\n{begin}\nold\n{end}\nafter"
    filled = rival_table.fill(page, result_of(cases), "en")
    assert filled.startswith(f"before\n{begin}\n| fault") and filled.endswith(f"{end}\nafter")
    assert "old" not in filled and rival_table.fill(filled, result_of(cases), "en") == filled
    assert rival_table.fill("no marks", result_of(cases), "en") == "no marks"
