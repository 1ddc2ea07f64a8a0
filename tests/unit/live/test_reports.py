"""Each kind of failure: who is found to be the cause, and, word for word, what the reader is told.

The words are in ``golden_reports.txt``, and in no other test.
"""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest

from rankbook.live.errors import CellFailed
from rankbook.live.failure import hang, memory
from rankbook.live.failure.blame import Verdict
from rankbook.live.failure.call import Call
from rankbook.live.failure.ending import RankOutcome
from rankbook.live.failure.report import agent_failed, agent_killed, agent_left
from rankbook.live.ranks.report import CellReport
from rankbook.live.torchrun.report import explain, interrupted
from rankbook.live.torchrun.traces import Traces, ending
from tests.unit.live.outcomes import (
    BROADCAST,
    LOST,
    REDUCE,
    blocked,
    done,
    exception,
    gone,
    made,
    raises,
    worker,
)

GOLDEN = Path(__file__).with_name("golden_reports.txt")
MORE = "More on this: rankbook symptom "
Case = tuple[Callable[[], CellFailed], dict]  # what composes the report, and the ranks it is about


def cell(endings, lost=False, stop=False, world_size=0, **found) -> Case:
    """A cell of live ranks. lost: the group is. stop: the reader pressed the button."""
    by_rank = {e.rank: e for e in endings}
    return CellReport(by_rank, world_size or len(endings), stop, lost).exception, found


def launch(endings, agents=(), **found) -> Case:
    """A launch of torchrun. agents: what became of agents that failed by themselves, in words."""
    return lambda: explain(deepcopy(endings), list(agents)), found  # it notes in them what it saw


def halted(endings) -> Case:
    """A launch that the reader interrupted."""
    return lambda: interrupted(deepcopy(endings), 1.24), {}


def apart(rank: int, op: str) -> RankOutcome:
    """A worker that answers where it is, and what it called last."""
    answer = {"call": Call("wait", "wait", 9).as_dict(), "calls": made(op)}
    return ending("", {"rank": rank}, None, Traces(answer=answer))


REPORTS: dict[str, Case] = {
    "cell: one raises, the other waits": cell(
        [blocked(0), raises(1, "ValueError: boom")], causes=[1], lost=True
    ),
    "cell: the other has seen the connection break": cell(
        [raises(0, LOST, REDUCE), raises(1, "ValueError: boom")], causes=[1], lost=True
    ),
    "cell: an exception without a text": cell([raises(0, "AssertionError")], causes=[0]),
    "cell: all raise the same": cell(
        [raises(r, "NameError: x") for r in range(3)], causes=[0, 1, 2]
    ),
    "cell: the same on other lines": cell(
        [raises(0, "KeyError: x"), raises(1, "KeyError: x", Call(line=6))], causes=[0, 1], lost=True
    ),
    "cell: a rank dies": cell(
        [blocked(0), gone(1, crash="  in f, line 3 of the cell")], causes=[1]
    ),
    "cell: all ranks die": cell([gone(0), gone(1)], causes=[0, 1]),
    "cell: a mismatch that a rank saw": cell(
        [blocked(0), raises(1, "CollectiveMismatch: they differ, [Rank 1]", BROADCAST)],
        mismatch=True,
        lost=True,
    ),
    "cell: a mismatch that timed out": cell(
        [raises(0, LOST, REDUCE), raises(1, "RuntimeError: Timed out waiting", BROADCAST)],
        mismatch=True,
        lost=True,
    ),
    "cell: the reader's own reads like a lost connection": cell(
        [blocked(0), raises(1, "ConnectionError: Connection reset by peer")], causes=[1], lost=True
    ),
    "cell: all raise what reads like a lost connection": cell(
        [raises(r, "OSError: Read error") for r in range(3)], causes=[0, 1, 2]
    ),
    "cell: a KeyboardInterrupt that nobody asked for": cell(
        [blocked(0), raises(1, "KeyboardInterrupt")], causes=[1], lost=True
    ),
    "cell: a rank dies, another raises": cell(
        [raises(0, "ValueError: boom", time=1), gone(1, time=2), blocked(2)], causes=[0, 1]
    ),
    "cell: the earlier is first": cell(
        [raises(0, "KeyError: y", time=2), raises(1, "KeyError: x", time=1)],
        causes=[1, 0],
        lost=True,
    ),
    "cell: a rank raises its own of what it suffers": cell(
        [
            blocked(0),
            raises(1, "ValueError: boom"),
            raises(2, "MyError: no training", REDUCE, exception(LOST, "all_reduce")),
            raises(3, "MyError: no training", REDUCE, exception(LOST, "all_reduce"), blocked=True),
        ],
        causes=[1],
        lost=True,
    ),
    "cell: all raise their own of what they suffer": cell(
        [raises(r, "MyError: no training", REDUCE, exception(LOST, "all_reduce")) for r in (0, 1)],
        causes=[0, 1],
        lost=True,
    ),
    "cell: a rank fails by itself and sees no mismatch": cell(
        [
            raises(0, "CollectiveMismatch: they differ", REDUCE),
            raises(1, "ValueError: boom"),
            raises(2, LOST, BROADCAST),
        ],
        causes=[1],
        mismatch=True,
        lost=True,
    ),
    "cell: the recorder knows that they parted": cell(
        [
            RankOutcome(0, finished=True, call=BROADCAST, parted=True),
            raises(1, LOST, REDUCE, parted=True),
        ],
        mismatch=True,
        lost=True,
    ),
    "cell: different waits are no mismatch": cell(
        [
            raises(0, LOST, Call("recv", "recv(float32 [1], src=1)", 2)),
            raises(1, LOST, Call("send", "send(float32 [1], dst=0)", 3)),
        ],
        waited=[0, 1],
        lost=True,
    ),
    "cell: one makes a call more": cell(
        [done(0, time=1), raises(1, LOST, REDUCE, time=2)], waited=[1], early=[0], lost=True
    ),
    "cell: one has nothing more to do after another failed": cell(
        [done(0, time=3), raises(1, LOST, REDUCE, time=2)], waited=[1], lost=True
    ),
    "cell: one makes a call less than two": cell(
        [raises(0, LOST, REDUCE, time=2), done(1, time=1), raises(2, LOST, REDUCE, time=3)],
        waited=[0, 2],
        early=[1],
        lost=True,
    ),
    "cell: nothing is known of where a rank stopped": cell(
        [RankOutcome(0, raised=exception(LOST, "wait")), raises(1, "ValueError: boom")],
        causes=[1],
        lost=True,
    ),
    "cell: interrupted": cell(
        [
            blocked(0, call=Call("recv", "recv(float32 [1], src=1)", 2)),
            raises(1, "KeyboardInterrupt", Call(line=3)),
        ],
        stop=True,
        lost=True,
        interrupted=True,
    ),
    "cell: interrupted after a rank had failed": cell(
        [
            raises(0, "ValueError: boom"),
            raises(1, "KeyboardInterrupt", Call(line=3)),
            raises(2, "MyError: stop", root=exception("KeyboardInterrupt")),
        ],
        stop=True,
        causes=[0],
    ),
    "cell: interrupted, and some ranks did not run it": cell(
        [blocked(1)], stop=True, world_size=4, interrupted=True
    ),
    # what another failure explains is never first, also when it was seen earlier
    "launch: one raises, the other sees it": launch(
        [
            worker(0, 1, LOST, when=1, line=9, call="all_reduce"),
            worker(1, 1, "ValueError: x", when=2),
        ],
        causes=[1],
    ),
    "launch: one is killed, the other sees it": launch(
        [worker(0, 1, LOST), worker(1, -9)], causes=[1]
    ),
    "launch: one is killed, torchrun ends the other": launch(
        [worker(0, -15), worker(1, -9)], causes=[1]
    ),
    "launch: one leaves": launch([worker(0, -15, line=4), worker(1, 3)], causes=[1]),
    "launch: one crashes": launch(
        [worker(0, -15), worker(1, -11, line=5, call="string_at")], causes=[1]
    ),
    "launch: nobody raised by itself": launch([worker(0, -15), worker(1, 1, LOST)], causes=[1]),
    "launch: nobody raised by itself, two suffered": launch(
        [worker(0, 1, LOST, when=2), worker(1, 1, LOST, when=1)], causes=[1]
    ),
    "launch: torchrun kills what does not end": launch(
        [worker(0, -9, when=3), worker(1, 1, "OSError: y", when=1)], causes=[1]
    ),
    "launch: ended from outside": launch([worker(0, -15)], causes=[0]),
    "launch: the agent did not live to tell": launch([worker(0)], causes=[0]),
    "launch: ranks fail alike": launch(
        [worker(r, 1, "ValueError: x") for r in range(3)], causes=[0, 1, 2]
    ),
    "launch: two causes: the earlier first": launch(
        [worker(0, 1, "A: x", when=2), worker(1, 1, "B: y", when=1)], causes=[1, 0]
    ),
    "launch: several agents": launch(
        [
            worker(0, -15, node="left"),
            worker(2, 1, "A: x", node="right"),
            worker(3, 1, "A: x", node="right"),
        ],
        causes=[2, 3],
    ),
    "launch: one ended well while the other waited": launch(
        [worker(0, 0, when=1), worker(1, 1, LOST, 3, "all_reduce", when=2)], waited=[1], early=[0]
    ),
    "launch: one ended well, another raised": launch(
        [worker(0, 0, when=1), worker(1, 1, "ValueError: x", when=2)], causes=[1]
    ),
    "launch: one ended well after the other's failure": launch(
        [worker(0, 0, when=3), worker(1, 1, LOST, when=2)], causes=[1]
    ),
    "launch: one ended well, two nodes waited": launch(
        [
            worker(0, 0, when=1, node="left"),
            worker(2, 1, LOST, 3, "wait", when=2, node="right"),
            worker(1, 1, LOST, 3, "wait", when=2, node="left"),
        ],
        waited=[2, 1],
        early=[0],
    ),
    # of one that is in that call still, frames have told how the reader wrote it
    "launch: two shapes": launch(
        [
            worker(0, 0, when=1, calls=made("all_reduce")),
            worker(1, 1, LOST, 7, "all_reduce", when=2, calls=made("all_reduce", shape="[5]")),
        ],
        mismatch=True,
    ),
    "launch: two orders": launch(
        [
            worker(0, 1, LOST, 7, "wait", when=1, calls=made("broadcast", "all_reduce")),
            worker(1, 1, LOST, 7, "wait", when=2, calls=made("all_reduce", "broadcast")),
            worker(2, -15, when=3),
        ],
        mismatch=True,
    ),
    "launch: gloo aborts one": launch(
        [
            worker(0, -6, line=7, call="all_reduce", parted=True),
            worker(1, 1, LOST, 7, "all_reduce", when=2),
        ],
        mismatch=True,
    ),
    "launch: gloo aborts one, and torchrun ends the other": launch(
        [
            worker(0, -6, line=7, call="all_reduce", parted=True),
            worker(1, -15, line=7, call="all_reduce", when=2, calls=made("all_reduce")),
        ],
        mismatch=True,
    ),
    "launch: two orders, and torchrun ends one as it raises": launch(
        [
            worker(0, 1, LOST, 7, "wait", when=1, calls=made("broadcast", "all_reduce")),
            worker(1, -15, LOST, 7, "wait", when=2, calls=made("all_reduce", "broadcast")),
        ],
        mismatch=True,
    ),
    "launch: one aborts for another reason": launch(
        [worker(0, -6, line=7, call="all_reduce"), worker(1, 1, LOST, 7, "all_reduce", when=2)],
        causes=[0],
    ),
    "launch: two orders, seen in a later call of the same kind": launch(
        [
            worker(0, 1, LOST, 8, "all_reduce", when=1, calls=made("all_reduce", "all_reduce")),
            worker(1, 1, LOST, 8, "wait", when=2, calls=made("broadcast")),
        ],
        mismatch=True,
    ),
    "launch: two orders, but one raised": launch(
        [
            worker(0, 1, LOST, 7, "wait", when=1, calls=made("broadcast")),
            worker(1, 1, "ValueError: x", 9, when=2, calls=made("all_reduce")),
        ],
        causes=[1],
    ),
    "launch: nothing is known": launch([]),
    "launch: the agent was killed": launch(
        [worker(0), worker(1, -9)], [agent_killed("torchrun", 9)]
    ),
    "launch: the agent failed": launch([], [agent_failed("torchrun", "OSError: no room")]),
    "launch: the agent left": launch([], [agent_left("left", 2, ["usage:", "no such option"])]),
    "launch: interrupted": halted([worker(0, -2, line=3, call="recv"), worker(1, -2)]),
    "launch: interrupted where its ranks parted": halted(
        [apart(0, "a"), apart(1, "b"), worker(2, -2, line=3)]
    ),
}


def golden() -> dict[str, list[str]]:
    """The lines of each report, by its name."""
    heads = (part.strip().split("\n") for part in GOLDEN.read_text("utf-8").split("== ") if part)
    return {name: lines for name, *lines in heads}


def body(report: str) -> list[str]:
    """The lines of a report, but the one that says where to read more."""
    *lines, last = report.split("\n")
    return lines if last.startswith(MORE) else [*lines, last]


def ranks(verdict: Verdict) -> dict:
    """What a verdict says, by ranks: what it does not say is left out."""
    found = {
        name: [e.rank for e in value] if isinstance(value, list) else value
        for name, value in vars(verdict).items()
    }
    return {name: value for name, value in found.items() if value}


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    """What is said of a SIGKILL does not hang on the machine."""
    monkeypatch.setattr(memory, "_kills", lambda: memory._KILLS_BEFORE)
    monkeypatch.setattr(memory, "_is_short", lambda: True)


@pytest.mark.parametrize("name", REPORTS)
def test_who_is_found_to_be_the_cause(name):
    compose, found = REPORTS[name]
    assert ranks(compose().verdict) == found


@pytest.mark.parametrize("name", REPORTS)
def test_what_the_reader_is_told(name):
    failed = REPORTS[name][0]()
    assert body(failed.report) == golden()[name]
    assert str(failed) == golden()[name][0]


def test_what_is_told_of_a_hang_while_it_lasts():
    load = Call(None, "time.sleep(9)", 6, stack=("cell line 7", "cell line 6, in load"))
    flat = Call(None, "", 6, stack=("cell line 6",))
    others = {"[1]": load, "[2]": flat}
    told = hang.format_hang({"[0]": REDUCE}, others, {"[3]": "has finished"})
    assert [*told, hang.goes_on(4, 1, load)] == golden()["hang"]


def test_no_report_is_quoted_that_is_not_composed():
    assert golden().keys() == {*REPORTS, "hang"}


@pytest.mark.parametrize(
    ("name", "symptom"),
    [
        ("launch: nobody raised by itself", "peer-closed"),  # it is all that is known
        ("launch: one raises, the other sees it", ""),  # the cause is the reader's own
    ],
)
def test_a_report_ends_with_the_address_of_what_it_is_about(name, symptom):
    last = REPORTS[name][0]().report.split("\n")[-1]
    assert last.startswith(MORE) is bool(symptom)
    assert not symptom or last == f"{MORE}{symptom} (symptoms.html#{symptom})"
