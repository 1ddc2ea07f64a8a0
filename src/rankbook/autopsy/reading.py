"""What a folder holds of a job: the ranks' records of its last attempt, dumps, error files."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rankbook.autopsy.dumps import error_file, load_dump, members, rank_of
from rankbook.autopsy.flight import Entry, entries
from rankbook.autopsy.process import born, machine
from rankbook.autopsy.stacks import Line

SILENT = 5.0  # seconds (or looks) without a sign of life after which a rank is taken for gone


@dataclass(frozen=True)
class RankRecord:
    """What is known of one rank.

    seen: when it last gave a sign of life; since: when its main thread was last seen to move; both
    in seconds since the epoch. ended: None, or how: "ended" (its program came to an end), "raised",
    "crashed", "told" (to end, by SIGTERM), "died" (without a word), "silent" (nothing more is
    heard, and nobody can look). error: type and text of what it raised, or the name of the crash.
    lines: where its main thread is, or where it raised, innermost first. peer: the rank that its
    send or recv is for. made: how many groups it has made. recorder: whether torch's flight
    recorder was on.
    """

    rank: int
    world_size: int = 0
    node: int = 0
    host: str = ""
    restart: int = 0
    started: float = 0.0
    since: float = 0.0
    seen: float = 0.0
    ended: str | None = None
    error: str = ""
    lines: tuple[Line, ...] = ()
    others: dict[str, tuple[Line, ...]] = field(default_factory=dict)
    peer: int | None = None
    entries: tuple[Entry, ...] = ()
    groups: dict[str, list[int]] = field(default_factory=dict)
    made: int = 0
    recorder: bool = True

    @property
    def still(self) -> float:
        """For how many seconds it had not moved when it was last seen."""
        return max(0.0, self.seen - self.since)


@dataclass(frozen=True)
class Job:
    """The ranks of a job's last attempt, and what is to be said of the files."""

    ranks: dict[int, RankRecord]
    world_size: int
    notes: tuple[str, ...] = ()

    @property
    def members(self) -> dict[str, list[int]]:
        """The ranks of each group by its name, as any of its ranks has told."""
        told = {"0": list(range(self.world_size))} if self.world_size else {}
        for rank in self.ranks.values():
            told.update(rank.groups)
        return told


def read(directory: Path) -> Job:
    """The job that has written into `directory`, in whichever folder below it.

    Raises ValueError in one sentence where there is no such folder, or no record in it.
    """
    if not directory.is_dir():
        raise ValueError(
            f"there is no folder {directory}; name the one that RANKBOOK_AUTOPSY named"
        )
    told, dumps, written, errors, notes = [], {}, {}, [], []
    for path in sorted(p for p in directory.rglob("*") if p.is_file() and p.name[0] != "."):
        try:
            if path.name == "error.json":
                errors.append(error_file(path))
            elif path.suffix == ".json" and '"machine"' in (text := path.read_text("utf-8")):
                told.append((path, json.loads(text)))
            elif "trace" in path.name and (rank := rank_of(path)) is not None:
                dumps[rank] = load_dump(path.read_bytes())
                written[rank] = path.stat().st_mtime
        except (ValueError, OSError, UnicodeDecodeError) as error:
            notes.append(f"{path.name} is left out: {error}")
    ranks = _ranks(told)
    for rank, dump in dumps.items():
        ranks[rank] = _with_dump(ranks.get(rank, _dumped(rank, written[rank])), dump)
    if not ranks and not errors:
        left = f" ({'; '.join(notes)})" if notes else ""
        raise ValueError(f"{directory} holds no record of any rank{left}; start the job with "
                         "RANKBOOK_AUTOPSY set to a folder, and a program that does not import "
                         "rankbook through rankbook.autopsy.run")  # fmt: skip
    size = max([r.world_size for r in ranks.values()] + [len(ranks)], default=0)
    if any(not rank.recorder for rank in ranks.values()):
        notes.append("torch's flight recorder was off (TORCH_FR_BUFFER_SIZE=0): "
                     "the calls are not known, only the stacks")  # fmt: skip
    elif not any(rank.entries for rank in ranks.values()):
        notes.append("no collective is recorded: the findings go by the stacks alone")
    notes += [_told(local, text) for local, text in errors]
    return Job(ranks, size, tuple(notes))


def _told(local: int | None, text: str) -> str:
    who = "a rank" if local is None else f"local rank {local}"
    return f"torchrun's error file of {who}: {next(iter(text.strip().splitlines()), '')}"


def _ranks(told: list[tuple[Path, dict[str, Any]]]) -> dict[int, RankRecord]:
    """By rank, of the last attempt; a helper that a rank has started is not taken for it."""
    attempt = max((record["restart"] for _, record in told), default=0)
    told = [(path, record) for path, record in told if record["restart"] == attempt]
    pids = {(r["machine"], r["pid"], r["rank"]) for _, r in told}
    told = [(p, r) for p, r in told if (r["machine"], r["ppid"], r["rank"]) not in pids]
    latest: dict[int, tuple[Path, dict[str, Any]]] = {}
    for path, record in sorted(told, key=lambda pair: pair[1]["started"]):
        if older := latest.get(record["rank"]):
            end = older[0].stat().st_mtime  # a run before this one ended about then
            latest = {r: pair for r, pair in latest.items() if pair[1]["started"] > end}
        latest[record["rank"]] = (path, record)
    ranks = {rank: _rank(*pair) for rank, pair in latest.items()}
    now = max((rank.seen for rank in ranks.values()), default=0.0)
    return {rank: _alive(r, latest[rank][1], now) for rank, r in sorted(ranks.items())}


def _rank(path: Path, told: dict[str, Any]) -> RankRecord:
    threads = {t["name"]: _lines(t["frames"]) for t in told["threads"]}
    main = next(iter(threads.values()), ())
    ended, how, error = told["ended"], None, ""
    if ended:
        how = ended["how"]
        if how == "raised":
            error, main = f"{ended['type']}: {ended['text']}", _lines(ended["frames"])
    elif stacks := _stacks(path):
        crash = stacks.startswith("Fatal Python error: ")
        how = "crashed" if crash else "told"
        error = stacks.splitlines()[0].removeprefix("Fatal Python error: ") if crash else ""
    return RankRecord(
        **{name: told[name] for name in ("rank", "world_size", "node", "host", "restart")},
        **{name: told[name] for name in ("started", "since", "peer", "groups", "made", "recorder")},
        seen=path.stat().st_mtime,
        ended=how,
        error=error,
        lines=main,
        others=dict(list(threads.items())[1:]),
        entries=tuple(Entry.of(entry) for entry in told["entries"]),
    )


def _lines(rows: Iterable[list]) -> tuple[Line, ...]:
    return tuple(Line(*row) for row in rows)


def _stacks(path: Path) -> str:
    beside = path.with_suffix(".stacks")
    return beside.read_text("utf-8", "replace") if beside.exists() else ""


def _alive(rank: RankRecord, told: dict[str, Any], now: float) -> RankRecord:
    """With how it ended, if it has not said so: looked up, or by its silence."""
    if rank.ended:
        return rank
    if told["machine"] and told["machine"] == machine():
        gone = born(told["pid"]) != told["born"]
        return replace(rank, ended="died") if gone else rank
    late = now - rank.seen > SILENT * max(1.0, told["seconds"])
    return replace(rank, ended="silent") if late else rank


def _dumped(rank: int, when: float) -> RankRecord:
    """A rank of which there is a dump only: a watchdog wrote it, and ended the rank."""
    return RankRecord(rank, since=when, seen=when, started=when, ended="told")


def _with_dump(rank: RankRecord, dump: dict[str, Any]) -> RankRecord:
    """With the calls of a dump, where it knows more of them."""
    held = tuple(entries(dump))
    if len(held) <= len(rank.entries):
        return rank
    return replace(rank, entries=held, groups={**rank.groups, **members(dump)})
