"""The autopsy as one page of text, or as one JSON document."""

import json
import textwrap
from typing import Any

from rankbook.autopsy import stacks, words
from rankbook.autopsy.finding import STILL, Finding, waits
from rankbook.autopsy.reading import Job, RankRecord

WIDTH = 76
SHOWN = 16  # ranks of which the page shows the last line; all of them are in the JSON


def as_text(job: Job, findings: list[Finding]) -> str:
    """The findings with their lines, then where each rank was at last."""
    told = [verdict(job, findings)]
    for number, finding in enumerate(findings, 1):
        told += ["", textwrap.fill(f"{number}. {finding.text}", WIDTH, subsequent_indent="   ")]
        lines = sorted((n, line) for n, line in finding.lines.items() if line)
        told += [_cut(f"   rank {n}  {line}") for n, line in lines[:SHOWN]]
    if job.ranks:
        told += ["", "The last line of each rank"]
        named = {n for finding in findings for n in (*finding.ranks, *finding.lines)}
        order = sorted(job.ranks, key=lambda n: (n not in named, n))
        told += [_row(job.ranks[n]) for n in sorted(order[:SHOWN])]
        if len(order) > SHOWN:
            told.append(f"   and {len(order) - SHOWN} more, in --json")
    told += (
        ["", *(textwrap.fill(f"Note: {note}.", WIDTH) for note in job.notes)] if job.notes else []
    )
    return "\n".join(told)


def verdict(job: Job, findings: list[Finding]) -> str:
    """The first line: how many ranks on how many nodes, and whether something is wrong."""
    nodes = len({rank.node for rank in job.ranks.values()})
    attempt = max((rank.restart for rank in job.ranks.values()), default=0)
    size = f"{len(job.ranks)} rank{'s' * (len(job.ranks) != 1)} on {nodes} node{'s' * (nodes != 1)}"
    again = f", after {attempt} restart{'s' * (attempt > 1)}" if attempt else ""
    if not findings:
        state = "nothing wrong found"
    else:
        state = f"{len(findings)} finding{'s' * (len(findings) > 1)}"
    return f"Autopsy of {size}{again}: {state}."


def _row(rank: RankRecord) -> str:
    last = words.line(stacks.last_line(rank.lines))
    return _cut(f"   rank {rank.rank}  {state(rank)}  {last}".rstrip())


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def state(rank: RankRecord) -> str:
    """A word or two on how a rank is: ``waits 12 s``, ``stays 12 s`` (at one line), ``runs``."""
    if rank.ended and rank.ended != "told":
        return rank.ended
    told = ", told to end" if rank.ended else ""
    how = "waits" if waits(rank) else "stays"
    return (f"{how} {words.seconds(rank.still)}" if rank.still >= STILL else "runs") + told


def as_json(job: Job, findings: list[Finding]) -> str:
    """All of it, for a program."""
    return json.dumps(as_dict(job, findings), indent=1, ensure_ascii=False)


def as_dict(job: Job, findings: list[Finding]) -> dict[str, Any]:
    """verdict; findings: kind, ranks, text, lines; ranks: state, last line and call; notes."""
    return {
        "verdict": verdict(job, findings),
        "findings": [{**vars(f), "lines": {str(r): t for r, t in f.lines.items()}}
                     for f in findings],
        "ranks": [_rank(rank) for _, rank in sorted(job.ranks.items())],
        "notes": list(job.notes),
    }  # fmt: skip


def _rank(rank: RankRecord) -> dict[str, Any]:
    last = stacks.last_line(rank.lines)
    entry = rank.entries[-1] if rank.entries else None
    return {
        "rank": rank.rank,
        "node": rank.node,
        "host": rank.host,
        "state": state(rank),
        "error": rank.error,
        "seconds": round(rank.still, 1),
        "does": words.doing(rank),
        "line": vars(last) if last else None,
        "call": vars(entry) | {"frames": [vars(f) for f in entry.frames]} if entry else None,
        "stack": [str(line) for line in rank.lines],
    }
