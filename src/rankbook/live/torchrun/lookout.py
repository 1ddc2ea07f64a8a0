"""What the notebook says while launches are silent: who waits for whom, and what holds them up."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import psutil

from rankbook.live.failure import hang
from rankbook.live.failure.call import Call
from rankbook.live.failure.hang import HINT, LOOK, STUCK
from rankbook.live.torchrun.launch import Launch

SELDOM = 60.0  # seconds between two pairs of looks, where there is nothing new for long
PATIENCE = 2.0  # seconds that a rank may take to answer, and to end when torchrun wants it to
CLOSING = "Sending process"  # how torchrun logs that, in torch's SubprocessContext
KILLS = "torchrun kills it 30 s after the signal"
ADVICE = (
    "{} waits for processes that it started ({}), and they do nothing. If they are in "
    "init_process_group: torchrun's TORCHELASTIC_USE_AGENT_STORE=True has them look for a store "
    'that nobody made. Before they start: os.environ.pop("TORCHELASTIC_USE_AGENT_STORE"). '
    "Or let torchrun start the ranks: --nproc-per-node"
)


class JobWatchdog:
    """Looks after the `launches` of one job; `say` shows a line."""

    def __init__(self, launches: Callable[[], Sequence[Launch]], say: Callable[[str], None]):
        self._launches, self._say = launches, say
        self._heard = -1
        self._due, self._asked_at, self._pause = 0.0, 0.0, HINT
        self._looks: list[dict[str, dict]] = []  # by rank, as shown: its answer
        self._told: set = set()

    def look(self) -> None:
        """Look, if it is time; to be called often."""
        now, launches = time.monotonic(), self._launches()
        if (heard := _heard(launches)) != self._heard:  # they do not hang
            self._heard, self._due, self._pause = heard, now + HINT, HINT
            self._looks, self._asked_at = [], 0.0
        if now < self._due:
            return
        if self._asked_at:
            answers = _answers(launches, self._asked_at)
            silent = len(answers) < sum(len(launch.alive()) for launch in launches)
            if silent and now < self._due + PATIENCE:  # a machine may be slow
                return
            self._looks.append(answers)
        if len(self._looks) < 2:
            self._asked_at, self._due = time.time(), now + LOOK
            for launch in launches:
                launch.ask()
            return
        self._tell(launches, *self._looks)
        self._looks, self._asked_at = [], 0.0
        self._due, self._pause = now + self._pause, min(2 * self._pause, SELDOM)
        self._heard = _heard(launches)  # what was said just now is not theirs

    def _tell(self, launches: Sequence[Launch], before: dict, after: dict) -> None:
        """Say what holds the ranks up, if they wait for each other; once for each way they do."""
        calls = {rank: Call(**answer["call"]) for rank, answer in after.items()}
        first = {rank: Call(**answer["call"]) for rank, answer in before.items()}
        waits = hang.waiting(calls, first)
        others = {rank: call for rank, call in calls.items() if rank not in waits}
        ended = {rank: words for launch in launches for rank, words in _silent(launch, calls)}
        state = (tuple((r, c.place) for r, c in waits.items()), tuple(others), tuple(ended.items()))
        if waits and state not in self._told:
            self._told.add(state)
            for line in hang.format_hang(waits, others, ended):
                self._say(line)
        for rank, answer in after.items():
            self._advise(rank, calls[rank], before.get(rank), answer)

    def _advise(self, rank: str, call: Call, before: dict | None, answer: dict) -> None:
        """torch's trap for programs that start their ranks themselves, which hang for long."""
        if not (before and answer["children"] and answer["agent_store"]):
            return
        used = [sum(then["children"].values()) for then in (before, answer)]
        same = before["children"].keys() == answer["children"].keys()
        if same and used[1] - used[0] < hang.IDLE and (rank, "spawn") not in self._told:
            self._told.add((rank, "spawn"))
            self._say(ADVICE.format(rank, call.place))


class Lingering:
    """Looks after ranks of a `launch` that torchrun ends, and that stay; `say` shows a line."""

    def __init__(self, launch: Launch, say: Callable[[str], None]):
        self._launch, self._say = launch, say
        self._seen: dict[int, float] = {}  # by process: when torchrun was seen to end it
        self._asked: dict[int, float] = {}  # when it was asked where it is, since the epoch

    def look(self) -> None:
        """Look, if there is something to see; to be called often."""
        log, now = self._launch.log, time.monotonic()
        if CLOSING not in log:
            return
        for worker in self._launch.alive():
            pid = worker["pid"]
            if f"{CLOSING} {pid} " not in log:
                continue
            waited = now - self._seen.setdefault(pid, now)
            if waited > PATIENCE and pid not in self._asked:
                self._asked[pid] = time.time()
                self._launch.ask()
            elif waited > PATIENCE + LOOK and self._asked.get(pid):
                self._tell(worker, self._asked[pid])
                self._asked[pid] = 0.0

    def _tell(self, worker: dict, since: float) -> None:
        found = self._launch.answer(worker, since)
        place = f": it is in {Call(**found['call']).place}" if found else ""
        rank = self._launch.label(worker)
        self._say(f"{rank} has not ended at torchrun's SIGTERM{place}; {KILLS}")


def whereabouts(launches: Sequence[Launch]) -> dict[int, str]:
    """What each process of `launches` is executing, in words, of those that answer in time."""
    since = time.time()
    for launch in launches:
        launch.ask()
    found: dict[int, str] = {}
    while time.time() < since + LOOK:
        for launch in launches:
            for worker in launch.alive():
                if answer := launch.answer(worker, since):
                    found[worker["pid"]] = _in_words(answer["call"])
        if len(found) == sum(len(launch.alive()) for launch in launches):
            break
        time.sleep(0.01)
    return found


def _in_words(call: dict) -> str:
    waits = "waits in " if call["op"] else "is in "
    return waits + Call(**call).place


def _heard(launches: Sequence[Launch]) -> int:
    return sum(len(launch.events) for launch in launches)


def _answers(launches: Sequence[Launch], since: float) -> dict[str, dict]:
    found = {}
    for launch in launches:
        for worker in launch.alive():
            if answer := launch.answer(worker, since):
                answer["children"] = {pid: _used(pid) for pid in answer["children"]}
                found[launch.label(worker)] = answer
    return found


def _silent(launch: Launch, answered: dict) -> list[tuple[str, str]]:
    """The ranks of `launch` that did not answer, and why."""
    alive = {worker["pid"] for worker in launch.alive()}
    silent = [w for w in launch.workers() if launch.label(w) not in answered]
    return [
        (launch.label(w), STUCK if w["pid"] in alive else "has left with exit code 0")
        for w in silent
        if w["pid"] in alive or launch.left_well(w)
    ]


def _used(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    with suppress(psutil.Error):
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system
    return 0.0
