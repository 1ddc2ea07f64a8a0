"""How ranks end, as the tests of verdicts and reports have them; no process ends for it."""

from rankbook.autopsy.flight import Entry, Frame
from rankbook.live.failure.call import Call
from rankbook.live.failure.ending import Raised, RankOutcome
from rankbook.live.failure.report import process_ended
from rankbook.live.torchrun.traces import Traces, ending

LOST = "RuntimeError: [gloo/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4711"
REDUCE = Call("all_reduce", "all_reduce(float32 [4])", 5)
BROADCAST = Call("broadcast", "broadcast(float32 [4], src=0)", 3)


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


def gone(rank: int, how: str = process_ended(7), **more) -> RankOutcome:
    return RankOutcome(rank, gone=how, **more)


def done(rank: int, time: float = 0.0) -> RankOutcome:
    return RankOutcome(rank, finished=True, time=time)


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
