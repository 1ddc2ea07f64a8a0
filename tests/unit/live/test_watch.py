"""What an interrupt of launches still lets through, and the seconds that it tells."""

import pytest

from rankbook.live.errors import CellFailed
from rankbook.live.failure.report import interrupted
from rankbook.live.torchrun import watch
from rankbook.live.torchrun.follower import ENOUGH, Follower
from rankbook.live.torchrun.launch import Launch
from rankbook.live.torchrun.notes import write_note
from rankbook.live.torchrun.spec import LaunchSpec

MUCH = 5000  # lines


class Printing(Launch):
    """A launch that ends at a signal, and has printed much until then."""

    def send_signal(self, signum: int) -> None:
        self.events += [(2.0, "stdout", f"line {number}") for number in range(MUCH)]
        self.done.set()

    def end(self, signum: int = 15) -> float:
        return 0.0


def test_an_interrupt_tells_the_seconds_until_all_is_shown(monkeypatch):
    clock, shown = [100.0], []
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock[0])
    launch = Printing(LaunchSpec([], []), prepare=lambda: None, starts=[])
    launch.events.append((1.0, "stdout", "the reader presses the button"))

    def show(kind: str, content: str) -> None:
        shown.append(content)
        if len(shown) == 1:
            raise KeyboardInterrupt
        clock[0] += 1.0

    with pytest.raises(CellFailed, match=interrupted(watch.BACKLOG + 1.0)):
        watch.watch([launch], [launch], show)
    left_out = f"... {MUCH - watch.BACKLOG} lines are left out: %torchrun logs has them"
    assert shown[1] == left_out and shown[-1] == f"line {MUCH - 1}"
    assert len(shown) == 1 + 1 + watch.BACKLOG


@pytest.mark.parametrize("hurry", [False, True])
def test_of_much_output_an_interrupt_shows_the_end(tmp_path, hurry):
    place = {"rank": 3, "local_rank": 0, "local_world_size": 1, "pid": 1, "logs": str(tmp_path)}
    write_note(tmp_path / "plan.json", {"local_ranks": None, "follow_ranks": True})
    write_note(tmp_path / "workers" / "1.json", place)
    lines = [f"{number:099}\n" for number in range(10 * ENOUGH // 100)]
    (tmp_path / "stdout.log").write_text("".join(lines))
    shown = []
    follower = Follower(tmp_path, "", lambda kind, content: shown.append((kind, content)))
    follower.hurry = hurry
    follower.finish()
    assert shown[-1] == ("stdout", f"[3] {lines[-1].rstrip()}")
    if hurry:
        assert shown[0] == ("stderr", "[3] ... 0.6 MB of stdout are left out ...")
        assert shown[1:] == [
            ("stdout", f"[3] {line.rstrip()}") for line in lines[-(ENOUGH // 100) :]
        ]
    else:
        assert len(shown) == len(lines)
