"""What came out of every trial of a wrapping: the verdict, and the error of each step in percent.

Measured with torch 2.12 and 2.13, which agree, and with 2.11, which does not. Where a trial does
not come out so after an update of torch, chapter 25 changes.
"""

from rankbook.parallel.pipeline import schedule_names
from rankbook.parallel.trials.outcomes import CANNOT, RAISES, RIGHT, WRONG

COUNTS = 2, 4, 8  # microbatches of each pipeline
# by their number: what two replicas are off, in each step, if nobody averages their gradients
NOBODY = {2: (66, 69), 4: (59, 59), 8: (54, 70)}
# the same, if only the first of the two stages is averaged
NOT_THE_LAST = {2: (55, 57), 4: (48, 50), 8: (44, 57)}

ASSERT = "RuntimeError: params_.size() == rebuilt_param_indices_.size() INTERNAL ASSERT FAILED"
UNDEFINED = "RuntimeError: Encountered gradient which is undefined, but still allreduced by DDP"

SPLIT = "interleavedzb", "zbv"  # schedules in which every backward comes in two halves
NOT_RIGHT = {
    **{("fully_shard each layer", "interleavedzb", m): (WRONG, percents)
       for m, percents in {2: (49, 47), 4: (48, 46), 8: (51, 56)}.items()},
    **{("fully_shard each layer", "zbv", m): (WRONG, percents)
       for m, percents in {2: (49, 47), 4: (50, 50), 8: (54, 62)}.items()},
    ("fully_shard each layer", "dualpipev", 4): (WRONG, (15, 12)),
    ("fully_shard each layer", "dualpipev", 8): (WRONG, (8, 9)),
    **{("DDP", s, m): (RAISES, (0,)) for s in ("gpipe", "loopedbfs") for m in COUNTS},
    ("DDP", "1f1b", 2): (RAISES, (0,)),
    ("DDP", "interleaved1f1b", 2): (RAISES, (0,)),
    ("DDP", "interleaved1f1b", 4): (RAISES, (0,)),
    **{("DDP", s, m): (RAISES, NOBODY[m][:1]) for s in SPLIT for m in (2, 4)},
    **{("DDP", s, 8): (WRONG, NOBODY[8]) for s in SPLIT},
    ("DDP", "dualpipev", 4): (RAISES, (34,)),
    ("DDP", "dualpipev", 8): (WRONG, (38, 53)),
    **{("DDP find_unused", s, m): (WRONG, NOBODY[m]) for s in SPLIT for m in COUNTS},
    ("DDP find_unused", "dualpipev", 4): (RAISES, (34,)),
    ("DDP find_unused", "dualpipev", 8): (RAISES, (38,)),
    **{("DDP static_graph", s, m): (WRONG, NOT_THE_LAST[m] if s in ("gpipe", "1f1b") else NOBODY[m])
       for s in schedule_names() for m in COUNTS},
}  # fmt: skip


def expected(schedule: str, wrapping: str, count: int) -> tuple[str, tuple[int, ...], int]:
    """The verdict, the percentages of its steps, the parameters without a gradient."""
    if schedule == "dualpipev" and count < 4:
        return CANNOT, (), 0
    verdict, percents = NOT_RIGHT.get((wrapping, schedule, count), (RIGHT, (0, 0)))
    missing = 32 if wrapping == "fully_shard each layer" and schedule in SPLIT else 0
    return verdict, percents, missing


def first_words(schedule: str, wrapping: str, count: int) -> str:
    """How the message begins of what is raised, or is refused; "" where nothing is."""
    verdict = expected(schedule, wrapping, count)[0]
    if verdict == CANNOT:
        return "schedule dualpipev needs at least as many microbatches as stages"
    if verdict == RAISES:
        return UNDEFINED if wrapping == "DDP find_unused" else ASSERT
    return ""


def expected_of_2_11(schedule: str, wrapping: str, count: int) -> tuple[str, tuple[int, ...], int]:
    """As `expected`, of torch 2.11: it infers shapes from a forward alone, which arms no reducer.

    In a V it first sends something from each stage to the next, and gloo sends nothing to itself.
    """
    verdict, percents, missing = expected(schedule, wrapping, count)
    if verdict == CANNOT:
        return verdict, percents, missing
    if schedule in ("zbv", "dualpipev") or wrapping == "DDP static_graph":
        return RAISES, (), 0
    if wrapping == "DDP":
        return (WRONG, NOBODY[count], 0) if schedule in SPLIT else (RIGHT, (0, 0), 0)
    return verdict, percents, missing
