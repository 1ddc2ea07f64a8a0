"""Findings on ranks that have ended: crashed, died, raised, cut off, never started."""

import re

from rankbook.autopsy import words
from rankbook.autopsy.finding import STILL, Finding, lines_of
from rankbook.autopsy.reading import Job, RankRecord

GONE = ("died", "silent")

# What a rank raises because another one is gone or late. Its own trouble reads differently.
OF_OTHERS = re.compile(
    r"Connection (closed|reset) by peer|Connection refused|Broken pipe|[Tt]imed out|[Tt]imeout|"
    r"Connection was likely closed|remote process exited|communicator was aborted|DistStoreError|"
    r"failed to recv|Application timeout|[Ww]atchdog"
)


def nodes(job: Job) -> list[Finding]:
    """A node of which nobody is heard any more, while others are."""
    nodes: dict[int, list[RankRecord]] = {}
    for rank in job.ranks.values():
        nodes.setdefault(rank.node, []).append(rank)
    gone = {n: ranks for n, ranks in nodes.items() if all(r.ended in GONE for r in ranks)}
    if len(gone) == len(nodes):
        return []
    newest = max(rank.seen for rank in job.ranks.values())
    return [
        Finding(
            "node",
            (mine := tuple(sorted(r.rank for r in ranks))),
            f"Node {number} ({ranks[0].host}) is silent: {words.ranks(mine, False)} "
            f"{words.verb(mine, 'was', 'were')} last heard from "
            f"{words.seconds(newest - max(r.seen for r in ranks))} before the others. "
            "It is down, or cut off.",
            lines_of(job, mine),
        )
        for number, ranks in gone.items()
    ]


def deaths(job: Job) -> list[Finding]:
    """Who crashed, and who died without a word; not those that a node took along, nor all."""
    silent = {r for finding in nodes(job) for r in finding.ranks}
    newest = max((rank.seen for rank in job.ranks.values()), default=0.0)
    everyone = all(rank.ended in GONE for rank in job.ranks.values())
    found = []
    for number, rank in job.ranks.items():
        if rank.ended == "crashed":
            text = f"Rank {number} crashed: {rank.error}."
        elif rank.ended not in GONE or number in silent:
            continue
        elif everyone and newest - rank.seen < STILL:
            continue  # the whole job was killed
        else:
            text = (f"Rank {number} {words.doing(rank)}, as if killed: out of memory, "
                    "SIGKILL or os._exit.")  # fmt: skip
        found.append(Finding(rank.ended or "", (number,), text, lines_of(job, [number])))
    return found


def raised(job: Job) -> list[Finding]:
    own = [r for r in job.ranks.values() if r.ended == "raised" and not OF_OTHERS.search(r.error)]
    return [
        Finding("raised", (r.rank,), f"Rank {r.rank} {words.doing(r)}.", lines_of(job, [r.rank]))
        for r in sorted(own, key=lambda rank: rank.seen)
    ]


def absent(job: Job) -> list[Finding]:
    missing = tuple(r for r in range(job.world_size) if r not in job.ranks)
    known = job.ranks.values()
    lasted = max(r.seen for r in known) - min(r.started for r in known) if known else 0.0
    if not missing or lasted < STILL:
        return []
    text = (f"{words.ranks(missing)} of {job.world_size} left no record: never started, or "
            "started without RANKBOOK_AUTOPSY.")  # fmt: skip
    return [Finding("absent", missing, text, {})]


def victims(job: Job) -> list[Finding]:
    """Errors of which another rank would be the cause, if one could be seen."""
    raised = [r for r in job.ranks.values() if r.ended == "raised"]
    if not raised:
        return []
    first = min(raised, key=lambda rank: rank.seen)
    text = (f"Rank {first.rank} {words.doing(first)}. That is what another rank's end or delay "
            "looks like; the records do not show whose.")  # fmt: skip
    return [Finding("raised", (first.rank,), text, lines_of(job, [first.rank]))]
