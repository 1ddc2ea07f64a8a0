"""The judgement: what is wrong with a job, the cause before what follows from it."""

from rankbook.autopsy import blocked, ends
from rankbook.autopsy.finding import Finding, waits
from rankbook.autopsy.reading import Job


def judge(job: Job) -> list[Finding]:
    """What is wrong with `job`, the cause before what follows from it; nothing if all is well."""
    found = ends.nodes(job) + ends.deaths(job) + ends.raised(job) + ends.absent(job)
    waiting = {rank.rank for rank in job.ranks.values() if waits(rank)}
    if not waiting and not found and not any(r.ended == "raised" for r in job.ranks.values()):
        return []
    groups, peers = blocked.groups(job), blocked.peers(job)
    held_up = {rank for finding in groups + peers for rank in finding.lines if rank in waiting}
    found += groups + peers + blocked.calls(job, held_up)
    return found or blocked.entered_by_all(job) or ends.victims(job)
