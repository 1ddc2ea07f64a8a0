"""Who is to blame for a failure and what the reader is told, without a process."""

import pytest

from rankbook.autopsy.flight import Entry, Frame
from rankbook.live.failure import memory
from rankbook.live.failure.blame import failed_alike, is_consequence
from rankbook.live.failure.call import Call
from rankbook.live.failure.ending import Raised, RankOutcome, exit_in_words
from rankbook.live.ranks.report import CellReport, ended
from rankbook.live.torchrun.report import explain, interrupted
from rankbook.live.torchrun.traces import Traces, collect, ending

LOST = "RuntimeError: [gloo/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4711"
OUT_OF_MEMORY = memory.hint()
MORE = "More on this: rankbook symptom "
KEPT = [
    "The variables are kept; the next cell gets a new process group.",
    "Objects that hold the old one (DDP, FSDP, DeviceMesh) must be made again.",
]
REDUCE = Call("all_reduce", "all_reduce(float32 [4])", 5)
BROADCAST = Call("broadcast", "broadcast(float32 [4], src=0)", 3)


SHORT = "Connection closed by peer [127.0.0.1]:4711"


def exception(text: str, inside: str = "", root: Raised | None = None) -> Raised:
    """inside: what native code raised it in; "" is the reader's own."""
    kind, _, message = text.partition(": ")
    return Raised(kind, message, f"frames of {kind}", inside, root)


def raises(rank: int, text: str, call: Call | None = None, root=None, **more) -> RankOutcome:
    inside = (call.op or "") if call and not root else ""
    return RankOutcome(
        rank, raised=exception(text, inside, root), call=call or Call(line=4), **more
    )


def blocked(rank: int, text: str = LOST, call: Call = REDUCE) -> RankOutcome:
    return raises(rank, text, call, blocked=True)


def gone(rank: int, how: str = "it left with exit code 7", **more) -> RankOutcome:
    return RankOutcome(rank, gone=how, **more)


def done(rank: int, time: float = 0.0) -> RankOutcome:
    return RankOutcome(rank, finished=True, time=time)


CELLS = {
    "one raises, the other waits": (
        [blocked(0), raises(1, "ValueError: boom")],
        ["rank 1 raised ValueError: boom", "frames of ValueError",
         "rank 0 was blocked in all_reduce(float32 [4]), cell line 5", *KEPT],
    ),
    "the other has seen the connection break": (
        [raises(0, LOST, REDUCE), raises(1, "ValueError: boom")],
        ["rank 1 raised ValueError: boom", "frames of ValueError",
         "rank 0 stopped in all_reduce(float32 [4]), cell line 5: "
         f"RuntimeError: {SHORT}, a consequence",
         *KEPT],
    ),
    "an exception without a text": (
        [raises(0, "AssertionError")], ["rank 0 raised AssertionError", "frames of AssertionError"],
    ),
    "all raise the same": (
        [raises(r, "NameError: x") for r in range(3)],
        ["[0-2] raised NameError: x", "frames of NameError"],
    ),
    "the same on other lines": (
        [raises(0, "KeyError: x"), raises(1, "KeyError: x", Call(line=6))],
        ["rank 0 raised KeyError: x", "frames of KeyError",
         "rank 1 raised KeyError: x", "frames of KeyError", *KEPT],
    ),
    "a rank dies": (
        [blocked(0), gone(1, crash="  in f, line 3 of the cell")],
        ["rank 1 is gone: it left with exit code 7", "  in f, line 3 of the cell",
         "rank 0 was blocked in all_reduce(float32 [4]), cell line 5",
         "The variables of [1] are lost; [0] kept theirs (%%ranks 0 still works)."
         " Start afresh with: %ranks restart"],
    ),
    "all ranks die": (
        [gone(0), gone(1)],
        ["rank 0 is gone: it left with exit code 7", "rank 1 is gone: it left with exit code 7",
         "The variables of [0-1] are lost. Start afresh with: %ranks restart"],
    ),
    "a mismatch that a rank saw": (
        [blocked(0), raises(1, "CollectiveMismatch: they differ, [Rank 1]", BROADCAST)],
        ["collective mismatch: the ranks did not make the same call",
         "rank 0 called all_reduce(float32 [4]), cell line 5",
         "rank 1 called broadcast(float32 [4], src=0), cell line 3", *KEPT],
    ),
    "a mismatch that timed out": (
        [raises(0, LOST, REDUCE), raises(1, "RuntimeError: Timed out waiting", BROADCAST)],
        ["collective mismatch: the ranks did not make the same call",
         "rank 0 called all_reduce(float32 [4]), cell line 5",
         "rank 1 called broadcast(float32 [4], src=0), cell line 3", *KEPT],
    ),
    "the reader's own reads like a lost connection": (
        [blocked(0), raises(1, "ConnectionError: Connection reset by peer")],
        ["rank 1 raised ConnectionError: Connection reset by peer", "frames of ConnectionError",
         "rank 0 was blocked in all_reduce(float32 [4]), cell line 5", *KEPT],
    ),
    "all raise what reads like a lost connection": (
        [raises(r, "OSError: Read error") for r in range(3)],
        ["[0-2] raised OSError: Read error", "frames of OSError"],
    ),
    "a KeyboardInterrupt that nobody asked for": (
        [blocked(0), raises(1, "KeyboardInterrupt")],
        ["rank 1 raised KeyboardInterrupt", "frames of KeyboardInterrupt",
         "rank 0 was blocked in all_reduce(float32 [4]), cell line 5", *KEPT],
    ),
    "a rank dies, another raises": (
        [raises(0, "ValueError: boom", time=1), gone(1, time=2), blocked(2)],
        ["rank 0 raised ValueError: boom", "frames of ValueError",
         "rank 1 is gone: it left with exit code 7",
         "rank 2 was blocked in all_reduce(float32 [4]), cell line 5",
         "The variables of [1] are lost; [0,2] kept theirs (%%ranks 0 still works)."
         " Start afresh with: %ranks restart"],
    ),
    "the earlier is first": (
        [raises(0, "KeyError: y", time=2), raises(1, "KeyError: x", time=1)],
        ["rank 1 raised KeyError: x", "frames of KeyError",
         "rank 0 raised KeyError: y", "frames of KeyError", *KEPT],
    ),
    "a rank raises its own of what it suffers": (
        [blocked(0), raises(1, "ValueError: boom"),
         raises(2, "MyError: no training", REDUCE, exception(LOST, "all_reduce")),
         raises(3, "MyError: no training", REDUCE, exception(LOST, "all_reduce"), blocked=True)],
        ["rank 1 raised ValueError: boom", "frames of ValueError",
         "rank 0 was blocked in all_reduce(float32 [4]), cell line 5",
         "rank 2 stopped in all_reduce(float32 [4]), cell line 5: "
         "MyError: no training, a consequence",
         "rank 3 was blocked in all_reduce(float32 [4]), cell line 5, "
         "then raised MyError: no training", *KEPT],
    ),
    "all raise their own of what they suffer": (
        [raises(r, "MyError: no training", REDUCE, exception(LOST, "all_reduce")) for r in (0, 1)],
        ["[0-1] raised MyError: no training", "frames of MyError", *KEPT],
    ),
    "a rank fails by itself and sees no mismatch": (
        [raises(0, "CollectiveMismatch: they differ", REDUCE),
         raises(1, "ValueError: boom"), raises(2, LOST, BROADCAST)],
        ["rank 1 raised ValueError: boom", "frames of ValueError",
         "collective mismatch: the ranks did not make the same call",
         "rank 0 called all_reduce(float32 [4]), cell line 5",
         "rank 2 called broadcast(float32 [4], src=0), cell line 3", *KEPT],
    ),
    "the recorder knows that they parted": (
        [RankOutcome(0, finished=True, call=BROADCAST, parted=True),
         raises(1, LOST, REDUCE, parted=True)],
        ["collective mismatch: the ranks did not make the same call",
         "rank 0 called broadcast(float32 [4], src=0), cell line 3",
         "rank 1 called all_reduce(float32 [4]), cell line 5", *KEPT],
    ),
    "different waits are no mismatch": (
        [raises(0, LOST, Call("recv", "recv(float32 [1], src=1)", 2)),
         raises(1, LOST, Call("send", "send(float32 [1], dst=0)", 3))],
        ["[0-1] waited in vain for the other ranks",
         f"rank 0 stopped in recv(float32 [1], src=1), cell line 2: RuntimeError: {SHORT}",
         f"rank 1 stopped in send(float32 [1], dst=0), cell line 3: RuntimeError: {SHORT}", *KEPT],
    ),
    "one makes a call more": (
        [done(0, time=1), raises(1, LOST, REDUCE, time=2)],
        ["rank 0 had finished the cell while rank 1 waited in all_reduce(float32 [4]), cell line 5",
         f"rank 1 stopped in all_reduce(float32 [4]), cell line 5: RuntimeError: {SHORT}", *KEPT],
    ),
    "one has nothing more to do after another failed": (
        [done(0, time=3), raises(1, LOST, REDUCE, time=2)],
        ["rank 1 waited in vain for the other ranks", "rank 0 had finished the cell",
         f"rank 1 stopped in all_reduce(float32 [4]), cell line 5: RuntimeError: {SHORT}", *KEPT],
    ),
    "one makes a call less than two": (
        [raises(0, LOST, REDUCE, time=2), done(1, time=1), raises(2, LOST, REDUCE, time=3)],
        ["rank 1 had finished the cell while [0,2] waited in all_reduce(float32 [4]), cell line 5",
         *(f"rank {r} stopped in all_reduce(float32 [4]), cell line 5: RuntimeError: {SHORT}"
           for r in (0, 2)), *KEPT],
    ),
    "nothing is known of where a rank stopped": (
        [RankOutcome(0, raised=exception(LOST, "wait")), raises(1, "ValueError: boom")],
        ["rank 1 raised ValueError: boom", "frames of ValueError",
         f"rank 0 stopped: RuntimeError: {SHORT}, a consequence", *KEPT],
    ),
}  # fmt: skip


def body(report: str) -> list[str]:
    """The lines of a report, but the one that says where to read more."""
    *lines, last = report.split("\n")
    return lines if last.startswith(MORE) else [*lines, last]


@pytest.mark.parametrize("name", CELLS)
def test_a_cell(name):
    endings, lines = CELLS[name]
    lost = KEPT[0] in lines
    failed = CellReport({e.rank: e for e in endings}, len(endings), group_lost=lost).exception()
    assert body(failed.report) == lines
    assert str(failed) == lines[0]


def test_an_interrupted_cell():
    receive = Call("recv", "recv(float32 [1], src=1)", 2)
    endings = {0: blocked(0, call=receive), 1: raises(1, "KeyboardInterrupt", Call(line=3))}
    report = CellReport(endings, 2, interrupted=True, group_lost=True).exception().report
    assert body(report) == [
        "The cell was interrupted.",
        "rank 0 was blocked in recv(float32 [1], src=1), cell line 2",
        "rank 1 stopped in cell line 3",
        *KEPT,
    ]


def test_an_interrupted_cell_in_which_a_rank_had_failed():
    endings = {0: raises(0, "ValueError: boom"), 1: raises(1, "KeyboardInterrupt", Call(line=3)),
               2: raises(2, "MyError: stop", root=exception("KeyboardInterrupt"))}  # fmt: skip
    report = CellReport(endings, 3, interrupted=True).exception().report
    assert body(report) == [
        "rank 0 raised ValueError: boom",
        "frames of ValueError",
        "rank 1 stopped in cell line 3",
        "rank 2 stopped in cell line 4: MyError: stop, a consequence",
    ]


def test_ranks_that_did_not_run_the_cell_are_missed():
    report = CellReport({1: blocked(1)}, 4, interrupted=True).exception().report
    assert body(report)[-1] == "[0,2-3] did not run this cell"


@pytest.mark.parametrize(
    ("endings", "alike"),
    [
        ([raises(0, "KeyError: x"), raises(1, "KeyError: y")], True),
        ([raises(0, "KeyError: x"), raises(1, "KeyError: x", Call(line=5))], False),
        ([raises(0, "KeyError: x"), done(1)], False),
        ([raises(0, LOST, REDUCE), raises(1, LOST, REDUCE)], False),
        ([raises(r, "CollectiveMismatch: x", REDUCE) for r in (0, 1)], False),
    ],
)
def test_whether_the_ranks_still_agree(endings, alike):
    assert failed_alike(endings) is alike


LOSSES = [
    LOST,
    "RuntimeError: Timed out waiting 5000ms for recv operation to complete",
    "RuntimeError: Operation timed out!",
    "RuntimeError: Timeout waiting for key: default_pg/0//key after 1 ms",
    "RuntimeError: Wait timeout",
    "RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 1800000 ms",
    "DistBackendError: NCCL error, remote process exited: ncclRemoteError",
    "DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.",
]


@pytest.mark.parametrize("text", LOSSES)
def test_the_groups_exception_is_a_consequence(text):
    assert is_consequence(RankOutcome(0, raised=exception(text, "all_reduce")))


@pytest.mark.parametrize("text", LOSSES)
def test_the_same_words_of_the_readers_own_are_none(text):
    """Nor does it help that the rank was cut loose at the time."""
    assert not is_consequence(RankOutcome(0, raised=exception(text)))
    assert not is_consequence(RankOutcome(0, raised=exception(text), blocked=True))


@pytest.mark.parametrize("text", [
    "RuntimeError: Invalid backend operation",  # a mistake in the call itself
    "TypeError: all_reduce(): Connection closed by peer",  # what the group never raises
    "CollectiveMismatch: rank 1 called barrier() where [Rank 0] called",
])  # fmt: skip
def test_what_a_collective_raises_for_mistakes_is_none(text):
    assert not is_consequence(RankOutcome(0, raised=exception(text, "all_reduce")))


def test_what_a_cut_collective_raises_is_a_consequence_however_it_reads():
    text = "DistStoreError: No such file or directory"
    assert is_consequence(RankOutcome(0, raised=exception(text, "wait"), blocked=True))
    assert not is_consequence(RankOutcome(0, raised=exception(text, "wait")))


def test_what_follows_from_a_loss_is_a_consequence():
    lost, own = exception(LOST, "all_reduce"), exception("RuntimeError: timed out")
    assert is_consequence(raises(0, "MyError: training failed", root=lost))
    assert not is_consequence(raises(0, "MyError: training failed", root=own))


def test_a_reply_without_the_lines_that_the_report_has():
    frames = ["-----", "ValueError   Traceback (most recent call last)", "Cell In[1], line 2\n",
              "ValueError: boom"]  # fmt: skip
    reply = {"ename": "ValueError", "evalue": "boom", "traceback": frames}
    heard = RankOutcome(0)
    ended(heard, reply)
    assert heard.raised == Raised("ValueError", "boom", "Cell In[1], line 2\n")
    reply["traceback"] = ["  Cell In[1], line 2", "SyntaxError: boom"]
    ended(heard, reply)
    assert heard.raised.traceback == "  Cell In[1], line 2\nSyntaxError: boom"


def test_a_reply_with_evidence():
    root = {"kind": "RuntimeError", "message": LOST, "inside": "wait"}
    found = {"inside": "", "root": root, "time": 3.0, "call": REDUCE.as_dict()}
    reply = {"ename": "MyError", "evalue": "boom", "traceback": [], "evidence": found}
    heard, looked_at = RankOutcome(0), RankOutcome(1, call=BROADCAST, blocked=True)
    for each in (heard, looked_at):
        ended(each, reply)
    assert (heard.call, heard.time, looked_at.call) == (REDUCE, 3.0, BROADCAST)
    assert heard.raised == Raised("MyError", "boom", root=Raised("RuntimeError", LOST, "", "wait"))


def test_a_thousand_frames_are_folded():
    frames = [f"Cell In[1], line {i}" for i in range(20)]
    reply = {"ename": "RecursionError", "evalue": "", "traceback": ["-", "Traceback (most recent "
             "call last)", *frames, "RecursionError: "], "evidence": {"depth": 985}}  # fmt: skip
    heard = RankOutcome(0)
    ended(heard, reply)
    shown = heard.raised.traceback.split("\n")
    assert shown == [*frames[:2], "... 980 more ...", *frames[-3:]]


def made(*ops: str, shape: str = "[4]") -> list[dict]:
    """Collectives as a rank's recorder gives them; the first is on line 7."""
    frames = [Frame("<module>", "cell.py", 7 + i) for i in range(len(ops))]
    return [Entry("0", i + 1, op, (f"float32 {shape}",), (), True, i, (frames[i],)).as_dict()
            for i, op in enumerate(ops)]  # fmt: skip


def worker(rank, code=None, text="", line=None, call="", when=0.0, node="", calls=(),
           parted=False) -> RankOutcome:  # fmt: skip
    """How a worker of a launch ended, from notes as its processes write them."""
    kind, _, message = text.partition(": ")
    report = {"type": kind, "message": message, "time": when, "traceback": f"Traceback\n{text}",
              "call": Call(call or None, call, line).as_dict(), "calls": calls,
              "evidence": {"inside": "all_reduce" if text == LOST else ""}}  # fmt: skip
    told = None if code is None else {"code": code, "time": when}
    exited = {"time": when, "calls": calls} if code == 0 else None
    traces = Traces(report if text else None, exited, None, {"line": line, "call": call},
                    parted)  # fmt: skip
    return ending(node, {"rank": rank}, told, traces)


LAUNCHES = {
    # what another failure explains is never first, also when it was seen earlier
    "one raises, the other sees it": (
        [worker(0, 1, LOST, when=1, line=9, call="all_reduce"),
         worker(1, 1, "ValueError: x", when=2)],
        ["rank 1 raised ValueError: x", "Traceback", "ValueError: x",
         f"rank 0 stopped in all_reduce, cell line 9: RuntimeError: {SHORT}, a consequence"],
    ),
    "one is killed, the other sees it": (
        [worker(0, 1, LOST), worker(1, -9)],
        [f"rank 1 was killed by SIGKILL{OUT_OF_MEMORY}",
         f"rank 0 stopped: RuntimeError: {SHORT}, a consequence"],
    ),
    "one is killed, torchrun ends the other": (
        [worker(0, -15), worker(1, -9)],
        [f"rank 1 was killed by SIGKILL{OUT_OF_MEMORY}", "rank 0 was ended by torchrun"],
    ),
    "one leaves": (
        [worker(0, -15, line=4), worker(1, 3)],
        ["rank 1 left with exit code 3", "rank 0 was in cell line 4; torchrun ended it"],
    ),
    "one crashes": (
        [worker(0, -15), worker(1, -11, line=5, call="string_at")],
        ["rank 1 was killed by SIGSEGV (string_at, cell line 5)", "rank 0 was ended by torchrun"],
    ),
    "nobody raised by itself": (
        [worker(0, -15), worker(1, 1, LOST)],
        [LOST.replace("RuntimeError", "rank 1 raised RuntimeError", 1), "Traceback", LOST,
         "rank 0 was ended by torchrun"],
    ),
    "torchrun kills what does not end": (
        [worker(0, -9, when=3), worker(1, 1, "OSError: y", when=1)],
        ["rank 1 raised OSError: y", "Traceback", "OSError: y", "rank 0 was ended by torchrun"],
    ),
    "ended from outside": ([worker(0, -15)], ["rank 0 was killed by SIGTERM"]),
    "the agent did not live to tell": ([worker(0)], ["rank 0 ended"]),
    "ranks fail alike": (
        [worker(r, 1, "ValueError: x") for r in range(3)],
        ["[0-2] raised ValueError: x", "Traceback", "ValueError: x"],
    ),
    "two causes: the earlier first": (
        [worker(0, 1, "A: x", when=2), worker(1, 1, "B: y", when=1)],
        ["rank 1 raised B: y", "Traceback", "B: y", "rank 0 raised A: x", "Traceback", "A: x"],
    ),
    "several agents": (
        [worker(0, -15, node="left"), worker(2, 1, "A: x", node="right"),
         worker(3, 1, "A: x", node="right")],
        ["right [2-3] raised A: x", "Traceback", "A: x", "left rank 0 was ended by torchrun"],
    ),
    "one ended well while the other waited": (
        [worker(0, 0, when=1), worker(1, 1, LOST, 3, "all_reduce", when=2)],
        ["rank 0 had left with exit code 0 while rank 1 waited in all_reduce, cell line 3",
         f"rank 1 stopped in all_reduce, cell line 3: RuntimeError: {SHORT}"],
    ),
    "one ended well, another raised": (
        [worker(0, 0, when=1), worker(1, 1, "ValueError: x", when=2)],
        ["rank 1 raised ValueError: x", "Traceback", "ValueError: x",
         "rank 0 had left with exit code 0"],
    ),
    "one ended well after the other's failure": (
        [worker(0, 0, when=3), worker(1, 1, LOST, when=2)],
        [LOST.replace("RuntimeError", "rank 1 raised RuntimeError", 1), "Traceback", LOST,
         "rank 0 had left with exit code 0"],
    ),
    "one ended well, two nodes waited": (
        [worker(0, 0, when=1, node="left"), worker(2, 1, LOST, 3, "wait", when=2, node="right"),
         worker(1, 1, LOST, 3, "wait", when=2, node="left")],
        ["left rank 0 had left with exit code 0 "
         "while right rank 2 and left rank 1 waited in wait, cell line 3",
         f"right rank 2 stopped in wait, cell line 3: RuntimeError: {SHORT}",
         f"left rank 1 stopped in wait, cell line 3: RuntimeError: {SHORT}"],
    ),
    "two shapes": (
        [worker(0, 0, when=1, calls=made("all_reduce")),
         worker(1, 1, LOST, 7, "all_reduce", when=2, calls=made("all_reduce", shape="[5]"))],
        ["collective mismatch: the ranks did not make the same call",
         "rank 0 called all_reduce(float32 [4]), cell line 7",
         "rank 1 called all_reduce, cell line 7",  # its frames have told how the reader wrote it
         "rank 0 had left with exit code 0"],
    ),
    "two orders": (
        [worker(0, 1, LOST, 7, "wait", when=1, calls=made("broadcast", "all_reduce")),
         worker(1, 1, LOST, 7, "wait", when=2, calls=made("all_reduce", "broadcast")),
         worker(2, -15, when=3)],
        ["collective mismatch: the ranks did not make the same call",
         "rank 0 called broadcast(float32 [4]), cell line 7",
         "rank 1 called all_reduce(float32 [4]), cell line 7", "rank 2 was ended by torchrun"],
    ),
    "gloo aborts one": (
        [worker(0, -6, line=7, call="all_reduce", parted=True),
         worker(1, 1, LOST, 7, "all_reduce", when=2)],
        ["collective mismatch: the ranks did not make the same call",
         "rank 0 called all_reduce, cell line 7, and was killed by SIGABRT",
         "rank 1 called all_reduce, cell line 7"],
    ),
    "gloo aborts one, and torchrun ends the other": (
        [worker(0, -6, line=7, call="all_reduce", parted=True),
         worker(1, -15, line=7, call="all_reduce", when=2, calls=made("all_reduce"))],
        ["collective mismatch: the ranks did not make the same call",
         "rank 0 called all_reduce, cell line 7, and was killed by SIGABRT",
         "rank 1 was in all_reduce, cell line 7; torchrun ended it"],
    ),
    "two orders, and torchrun ends one as it raises": (
        [worker(0, 1, LOST, 7, "wait", when=1, calls=made("broadcast", "all_reduce")),
         worker(1, -15, LOST, 7, "wait", when=2, calls=made("all_reduce", "broadcast"))],
        ["collective mismatch: the ranks did not make the same call",
         "rank 0 called broadcast(float32 [4]), cell line 7",
         "rank 1 called all_reduce(float32 [4]), cell line 7"],
    ),
    "one aborts for another reason": (
        [worker(0, -6, line=7, call="all_reduce"), worker(1, 1, LOST, 7, "all_reduce", when=2)],
        ["rank 0 was killed by SIGABRT (all_reduce, cell line 7)",
         f"rank 1 stopped in all_reduce, cell line 7: RuntimeError: {SHORT}, a consequence"],
    ),
    "two orders, seen in a later call of the same kind": (
        [worker(0, 1, LOST, 8, "all_reduce", when=1, calls=made("all_reduce", "all_reduce")),
         worker(1, 1, LOST, 8, "wait", when=2, calls=made("broadcast"))],
        ["collective mismatch: the ranks did not make the same call",
         "rank 0 called all_reduce(float32 [4]), cell line 7",
         "rank 1 called broadcast(float32 [4]), cell line 7"],
    ),
    "two orders, but one raised": (
        [worker(0, 1, LOST, 7, "wait", when=1, calls=made("broadcast")),
         worker(1, 1, "ValueError: x", 9, when=2, calls=made("all_reduce"))],
        ["rank 1 raised ValueError: x", "Traceback", "ValueError: x",
         f"rank 0 stopped in wait, cell line 7: RuntimeError: {SHORT}, a consequence"],
    ),
    "nothing is known": ([], ["torchrun failed"]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "words", "parted"),
    [(-6, "[enforce fail at pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4.", True),
     (-6, "free(): invalid pointer", False),
     (1, "op.preamble.length <= op.nbytes", False)],
)  # fmt: skip
def test_gloos_last_words_on_sizes_are_read(tmp_path, code, words, parted):
    (tmp_path / "stderr.log").write_text("a" * 50_000 + words)
    one = {"rank": 0, "pid": 4711, "logs": str(tmp_path)}
    end = {"workers": [{"pid": 4711, "code": code, "time": 1.0}]}
    assert [e.parted for e in collect(tmp_path, "", [one], end)] == [parted]


@pytest.mark.parametrize("name", LAUNCHES)
def test_a_launch(name):
    endings, lines = LAUNCHES[name]
    failed = explain(endings, [])
    assert body(failed.report) == lines
    assert str(failed) == lines[0]


@pytest.mark.parametrize(
    ("name", "symptom"),
    [
        ("nobody raised by itself", "peer-closed"),  # it is all that is known
        ("one raises, the other sees it", ""),  # the cause is the reader's own
    ],
)
def test_a_report_ends_with_the_address_of_what_it_is_about(name, symptom):
    last = explain(LAUNCHES[name][0], []).report.split("\n")[-1]
    assert last.startswith(MORE) is bool(symptom)
    assert not symptom or last == f"{MORE}{symptom} (symptoms.html#{symptom})"


def test_a_killed_agent_is_the_cause():
    words = "the agent of torchrun was killed by SIGKILL; its workers ended with it"
    failed = explain([worker(0), worker(1, -9)], [words])
    assert str(failed) == words
    assert failed.report.split("\n")[1:] == [f"rank {r} was ended by torchrun" for r in (0, 1)]


def test_an_interrupted_launch_says_where_its_ranks_were():
    report = interrupted([worker(0, -2, line=3, call="recv"), worker(1, -2)], 1.24).report
    head = "interrupted; everything was ended 1.2 s later"
    assert body(report) == [head, "rank 0 was in recv, cell line 3"]


def test_an_interrupted_launch_says_where_its_ranks_parted():
    answers = [{"call": Call("wait", "wait", 9).as_dict(), "calls": made(op)} for op in "ab"]
    parted = [ending("", {"rank": r}, None, Traces(answer=answers[r])) for r in (0, 1)]
    assert body(interrupted([*parted, worker(2, -2, line=3)], 1.24).report) == [
        "interrupted; everything was ended 1.2 s later",
        "collective mismatch: the ranks did not make the same call",
        "rank 0 called a(float32 [4]), cell line 7",
        "rank 1 called b(float32 [4]), cell line 7",
        "rank 2 was in cell line 3",
    ]


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "left with exit code 0"), (7, "left with exit code 7"), (-11, "killed by SIGSEGV"),
     (-9, f"killed by SIGKILL{OUT_OF_MEMORY}")],
)  # fmt: skip
def test_exit_codes_in_words(code, words):
    assert exit_in_words(code) == words
