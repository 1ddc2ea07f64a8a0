"""What ``%ranks status`` shows: a line for each rank."""

from rankbook.live.failure.call import Call
from rankbook.live.ranks.process import RankProcess, control

MIB = 2**20


def lines(processes: dict[int, RankProcess], dead: dict[int, str]) -> list[str]:
    """What every rank does, how much memory it has, and its last collective."""
    alive = [process for rank, process in processes.items() if rank not in dead]
    known = control(alive, "standing")
    return [f"  rank {r}: {dead.get(r) or _line(p, known.get(r))}" for r, p in processes.items()]


def _line(process: RankProcess, known: dict | None) -> str:
    if known is None:
        return f"process {process.pid}, does not answer: native code keeps the interpreter"
    parts = [f"process {process.pid}", f"{known['memory'] / MIB:.0f} MiB"]
    if known["gpu"]:
        parts.append(f"{known['gpu'] / MIB:.0f} MiB on the GPU")
    parts.append(_doing(known))
    if last := known["last"]:
        waits = "" if last["done"] else ", not completed"
        parts.append(f"last collective {last['text']}, {last['seconds']:.0f} s ago{waits}")
    return ", ".join(parts)


def _doing(known: dict) -> str:
    if known["seconds"] is None:
        return "idle"
    cell = f" in cell {known['cell']}" if known["cell"] else ""
    call = Call(**known["call"])
    at = f": {call.place}" if call.text or call.line else ""
    return f"busy for {known['seconds']:.0f} s{cell}{at}"
