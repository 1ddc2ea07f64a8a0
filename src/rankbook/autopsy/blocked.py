"""Findings on ranks that wait: for a group, a peer, a collective, or the network."""

from collections.abc import Iterable

from rankbook.autopsy import stacks, words
from rankbook.autopsy.compare import Parting, partings
from rankbook.autopsy.finding import Finding, lines_of, network_hint, waits
from rankbook.autopsy.flight import Entry
from rankbook.autopsy.reading import Job, RankRecord

ENDED_BADLY = ("crashed", "raised", "died", "silent")


def groups(job: Job) -> list[Finding]:
    """A group that some make and others do not: all ranks have to, members or not."""
    makers = [r for r in job.ranks.values() if stacks.call(r.lines) in stacks.MAKES_GROUPS]
    if not any(waits(rank) for rank in makers):
        return []
    inside = tuple(rank.rank for rank in makers)
    others = tuple(r for r in job.ranks if r not in inside)
    wait = f"{words.ranks(inside)} {words.verb(inside, 'waits', 'wait')} in "
    wait += stacks.call(makers[0].lines)
    if others:
        text = (f"{wait}, which all ranks have to call, members of the group or not. "
                f"{_instead(job, others)}{_made(job)}")  # fmt: skip
        return [Finding("group", others, text, lines_of(job, [*inside, *others]))]
    if len(inside) < job.world_size:
        return []  # `absent` has said who
    if uneven := _made(job):
        return [Finding("group", inside, f"{wait}.{uneven}", lines_of(job, inside))]
    text = f"{wait}, all of them: they do not reach each other. {network_hint(job)}"
    return [Finding("network", inside, text, lines_of(job, inside))]


def _made(job: Job) -> str:
    """How many groups the ranks have made, where that differs: torch numbers them by it."""
    made: dict[int, list[int]] = {}
    for number, rank in job.ranks.items():
        made.setdefault(rank.made, []).append(number)
    if len(made) == 1:
        return ""
    counts = ", ".join(f"{n} on {words.ranks(who, False)}" for n, who in sorted(made.items()))
    return f" Groups begun so far: {counts}; one was made by some ranks only."


def peers(job: Job) -> list[Finding]:
    """A send without its recv, or a recv without its send; two that both send."""
    found = []
    for rank in job.ranks.values():
        made, other = stacks.call(rank.lines), job.ranks.get(-1 if rank.peer is None else rank.peer)
        if not waits(rank) or made not in stacks.P2P or other is None:
            continue
        theirs = stacks.call(other.lines)
        if theirs in stacks.P2P and other.peer != rank.rank:
            continue  # it waits itself, for a third
        if theirs in stacks.P2P and stacks.P2P[theirs] != stacks.P2P[made]:
            continue  # a pair, on its way
        both = theirs in stacks.P2P
        if both and other.rank < rank.rank:
            continue  # said already
        way, needed = ("to", "recv") if made.endswith("send") else ("from", "send")
        pair = (rank.rank, other.rank)
        if both:
            done = "receives" if needed == "recv" else "sends"
            text = f"{words.ranks(pair)} wait in {made} {way} each other, and neither {done}."
        else:
            text = (f"Rank {rank.rank} waits in {made} {way} rank {other.rank}, which does not "
                    f"{needed}: it {words.doing(other)}.")  # fmt: skip
        found.append(Finding("p2p", pair if both else pair[1:], text, lines_of(job, pair)))
    return found


def calls(job: Job, held_up: set[int]) -> list[Finding]:
    """The first call of each group that is missing on a rank, or differs."""
    held = {number: rank.entries for number, rank in job.ranks.items()}
    found = []
    for parting in partings(held, job.members):
        missing = [r for r in parting.missing if r in job.ranks]
        if missing and all(job.ranks[r].ended in ENDED_BADLY for r in missing):
            continue  # that has been said, and is the reason
        stuck = [r for r in parting.calls if waits(job.ranks[r]) or job.ranks[r].ended]
        if parting.differs:
            found.append(_differing(job, parting))
        elif missing and stuck and not set(missing) <= held_up:
            late = [r for r in missing if _is_late(job.ranks[r], parting)]
            found.append((_late if late else _missing)(job, parting, late or missing))
    return found


def _is_late(rank: RankRecord, parting: Parting) -> bool:
    """Whether a rank has made the call before, and is in it to the last."""
    mine = [e for e in rank.entries if e.group == parting.group]
    return (
        waits(rank) and bool(mine) and not mine[-1].done and (mine[-1].number == parting.number - 1)
    )


def _late(job: Job, parting: Parting, late: list[int]) -> Finding:
    entry = next(e for e in reversed(job.ranks[late[0]].entries) if e.group == parting.group)
    here, they = sorted(parting.calls), words.verb(late, "it waits", "they wait")
    text = (f"{words.ranks(late)} {words.verb(late, 'is', 'are')} still in "
            f"{words.call(entry, parting.group)}, which {words.ranks(here, False)} "
            f"{words.verb(here, 'has', 'have')} left: what {they} for does not "
            f"arrive. {network_hint(job)}")  # fmt: skip
    return Finding("network", tuple(late), text, _at(job, parting) | lines_of(job, late))


def _missing(job: Job, parting: Parting, missing: list[int]) -> Finding:
    here = sorted(parting.calls)
    entry = parting.calls[here[0]]
    longest = max(job.ranks[r].seen - parting.calls[r].time for r in here)
    inside = "a bucket of DDP's backward, " if _is_backward(entry) else ""
    have = words.verb(here, "has", "have")
    text = (f"{words.ranks(missing)} {words.verb(missing, 'has', 'have')} not come to {inside}"
            f"{words.call(entry, parting.group)}, in which {words.ranks(here, False)} {have} "
            f"waited for {words.seconds(longest)}. {_instead(job, missing)}")  # fmt: skip
    return Finding("missing", tuple(missing), text, _at(job, parting) | lines_of(job, missing))


def _is_backward(entry: Entry) -> bool:
    return any(f.name == "backward" and "torch/" in f.file for f in entry.frames)


def _at(job: Job, parting: Parting) -> dict[int, str]:
    """Where each rank made the call: the line of its own code, or the one where it is."""
    told = lines_of(job, parting.calls)
    for number, entry in parting.calls.items():
        own = next((f for f in entry.frames if stacks.is_own(f.file)), None)
        now = stacks.last_line(job.ranks[number].lines)
        if own and not (now and (now.file, now.line) == (own.file, own.line)):
            told[number] = words.line(stacks.at(own.file, own.line, own.name))
    return told


def _differing(job: Job, parting: Parting) -> Finding:
    alike: dict[str, list[int]] = {}
    for rank, entry in sorted(parting.calls.items()):
        alike.setdefault(_told(entry), []).append(rank)
    which = max(alike.values(), key=len)
    unlike = len(alike) == len(parting.calls)  # nobody agrees with anybody
    odd = tuple(r for r in sorted(parting.calls) if unlike or r not in which)
    said = "; ".join(f"{words.ranks(ranks, False)} {words.verb(ranks, 'calls', 'call')} {call}"
                     for call, ranks in alike.items())  # fmt: skip
    text = (f"Call {parting.number} of {words.the_group(parting.group)} is not the same on all "
            f"ranks: {said}.")  # fmt: skip
    return Finding(parting.differs, odd, text, _at(job, parting))


def _told(entry: Entry) -> str:
    return entry.text + (" in backward" if _is_backward(entry) else "")


def _instead(job: Job, missing: Iterable[int]) -> str:
    """``Rank 1 is in the data loader.``, ranks that do the same together."""
    said: dict[str, list[int]] = {}
    for number in missing:
        said.setdefault(words.doing(job.ranks[number]), []).append(number)
    return " ".join(f"{words.ranks(ranks)}: {what}." if len(ranks) > 1 else
                    f"{words.ranks(ranks)} {what}." for what, ranks in said.items())  # fmt: skip


def entered_by_all(job: Job) -> list[Finding]:
    """Findings where every member entered the collective and it still hangs: the network."""
    last: dict[tuple, list[int]] = {}
    for number, rank in job.ranks.items():
        if waits(rank) and rank.entries and not rank.entries[-1].done:
            entry = rank.entries[-1]
            last.setdefault((entry.group, entry.number, entry.text), []).append(number)
    found = []
    for (group, _, _), ranks in last.items():
        if len(ranks) > 1 and ranks == job.members.get(group, ranks):
            entry = job.ranks[ranks[0]].entries[-1]
            longest = min(job.ranks[r].seen - job.ranks[r].entries[-1].time for r in ranks)
            text = (f"{words.ranks(ranks)} have all come to {words.call(entry, group)}, which has "
                    f"not finished in {words.seconds(longest)}. Nobody is missing, so the trouble "
                    f"is between them. {network_hint(job)}")  # fmt: skip
            found.append(Finding("network", tuple(ranks), text, lines_of(job, ranks)))
    return found
