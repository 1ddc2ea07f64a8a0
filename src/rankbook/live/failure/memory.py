"""Whether memory ran out: asked when a process was killed and nobody says by whom."""

from contextlib import suppress
from pathlib import Path

LITTLE = 0.1  # of the memory


def hint() -> str:
    """What to say after ``killed by SIGKILL``; empty if memory has nothing to do with it.

    Linux counts the processes that it kills for want of memory, those of containers too:
    https://docs.kernel.org/admin-guide/cgroup-v2.html
    """
    if _kills() > _KILLS_BEFORE:
        return " (the system ran out of memory)"
    return " (out of memory?)" if _is_short() else ""


def _kills() -> int:
    return _numbers("/proc/vmstat").get("oom_kill", 0)


def _is_short() -> bool:
    kibibytes = _numbers("/proc/meminfo")
    available, total = (kibibytes.get(f"Mem{name}:", 0) for name in ("Available", "Total"))
    return available < LITTLE * total


def _numbers(file: str) -> dict[str, int]:
    with suppress(OSError):
        lines = [line.split() for line in Path(file).read_text().splitlines()]
        return {line[0]: int(line[1]) for line in lines if len(line) > 1}
    return {}


_KILLS_BEFORE = _kills()  # when the notebook loaded us
