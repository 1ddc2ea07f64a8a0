"""Who is to blame for a failure, and what is heard of it, without a process."""

import pytest

from rankbook.live.failure.blame import failed_alike, is_consequence
from rankbook.live.failure.call import Call
from rankbook.live.failure.ending import Raised, RankOutcome
from rankbook.live.ranks.report import ended
from rankbook.live.torchrun.traces import collect
from tests.unit.live.outcomes import BROADCAST, LOST, REDUCE, done, exception, raises


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
