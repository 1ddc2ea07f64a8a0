"""A picture of the last calls of all ranks: a row for each rank, time to the right. SVG by hand."""

from collections.abc import Iterator
from html import escape

from rankbook.autopsy import stacks, words
from rankbook.autopsy.finding import Finding
from rankbook.autopsy.flight import Entry
from rankbook.autopsy.page import state, verdict
from rankbook.autopsy.reading import Job

COLUMNS, ROWS = 8, 24  # calls and ranks that are drawn at most
WIDE, HIGH, LEFT, TOP, RIGHT = 104, 34, 88, 96, 330  # of a column, a row and the margins, pixels
DONE, WAITS, ABSENT, ODD = "#a9d8cf", "#f2b84b", "#c0364a", "#6f4fa3"
BLACK, GREY, WHITE = "#1d2530", "#5d6875", "#ffffff"
Call = tuple[str, int]


def as_svg(job: Job, findings: list[Finding]) -> str:
    """The picture as the text of an SVG file."""
    columns = _columns(job)
    ranks = _rows(job, findings)
    width, height = LEFT + WIDE * max(len(columns), 1) + RIGHT, TOP + HIGH * len(ranks) + 56
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" font-family="system-ui, sans-serif" '
        'font-size="12" fill="#1d2530">',
        f"<title>{escape(verdict(job, findings))}</title>",
        f'<rect width="{width}" height="{height}" fill="{WHITE}"/>',
        _text(16, 28, "The last calls of each rank", size=16, weight=600),
        *_heads(job, columns),
    ]
    for row, rank in enumerate(ranks):
        body += _row(job, rank, TOP + HIGH * row, columns, bool(row % 2))
    body += [*_legend(height - 22), "</svg>"]
    return "\n".join(body) + "\n"


def _columns(job: Job) -> list[Call]:
    """The last calls of all groups, in the order in which the first rank came to each."""
    first: dict[Call, float] = {}
    for rank in job.ranks.values():
        for entry in rank.entries:
            key = (entry.group, entry.number)
            first[key] = min(entry.time, first.get(key, entry.time))
    return sorted(first, key=lambda key: first[key])[-COLUMNS:]


def _rows(job: Job, findings: list[Finding]) -> list[int]:
    """The ranks that are drawn: those of the findings before others, where there are too many."""
    named = {rank for finding in findings for rank in finding.ranks}
    return sorted(sorted(job.ranks, key=lambda r: (r not in named, r))[:ROWS])


def _usual(job: Job, key: Call) -> str:
    """How most ranks made a call."""
    made = [e.text for r in job.ranks.values() for e in r.entries if (e.group, e.number) == key]
    return max(made, key=made.count)


def _heads(job: Job, columns: list[Call]) -> Iterator[str]:
    for i, (group, number) in enumerate(columns):
        x = LEFT + WIDE * i + WIDE / 2
        op, _, shape = _usual(job, (group, number)).rstrip(")").partition("(")
        where = f"#{number}" if group == "0" else f"#{number}, group {group}"
        for y, text, colour in (
            (54, where, "#6b7683"),
            (70, op, "#1d2530"),
            (85, shape, "#6b7683"),
        ):
            yield _text(x, y, _cut(text, 17), anchor="middle", size=11, colour=colour)
    yield _text(LEFT + WIDE * len(columns) + 16, 85, "and now", size=11, colour=GREY)


def _row(job: Job, number: int, y: int, columns: list[Call], shaded: bool) -> Iterator[str]:
    rank = job.ranks[number]
    held = {(entry.group, entry.number): entry for entry in rank.entries}
    end = LEFT + WIDE * len(columns)
    if shaded:
        yield f'<rect x="0" y="{y}" width="{end + RIGHT}" height="{HIGH}" fill="#f5f7f9"/>'
    yield _text(16, y + 22, f"rank {number}", weight=600)
    for i, key in enumerate(columns):
        if number in job.members.get(key[0], [number]):
            oldest = min((n for group, n in held if group == key[0]), default=0)
            if key in held or key[1] > oldest:  # older ones have fallen out of the recorder
                yield from _box(LEFT + WIDE * i + 4, y + 6, held.get(key), _usual(job, key))
    last = stacks.last_line(rank.lines)
    yield _text(end + 16, y + 15, state(rank), size=11, weight=600)
    yield _text(end + 16, y + 29, _cut(words.line(last), 52), size=11, colour="#4b5663")


def _box(x: int, y: int, entry: Entry | None, usual: str) -> Iterator[str]:
    """A call of a rank: done, waited in, other than the others', or never made."""
    size = f'x="{x}" y="{y}" width="{WIDE - 8}" height="{HIGH - 12}" rx="4"'
    if entry is None:
        yield f'<rect {size} fill="#fdecef" stroke="{ABSENT}" stroke-dasharray="4 3"/>'
        yield _text(x + WIDE / 2 - 4, y + 15, "missing", "middle", 11, 600, ABSENT)
        return
    differs = entry.text != usual
    colour = ODD if differs else DONE if entry.done else WAITS
    yield f'<rect {size} fill="{colour}"><title>{escape(entry.text)}</title></rect>'
    label = entry.op if differs else "" if entry.done else "waits"
    if label:
        ink = WHITE if differs else BLACK
        yield _text(x + WIDE / 2 - 4, y + 15, _cut(label, 15), "middle", 11, 600, ink)


def _legend(y: int) -> Iterator[str]:
    x = LEFT + 4
    for colour, word in (
        (DONE, "done"),
        (WAITS, "waits"),
        (ABSENT, "never came"),
        (ODD, "differs"),
    ):
        yield f'<rect x="{x}" y="{y - 10}" width="12" height="12" rx="2" fill="{colour}"/>'
        yield _text(x + 18, y, word, size=11)
        x += 40 + 7 * len(word)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _text(
    x: float, y: float, text: str, anchor: str = "start", size: int = 12,
    weight: int = 400, colour: str = BLACK,
) -> str:  # fmt: skip
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" '
        f'font-weight="{weight}" fill="{colour}">{escape(text)}</text>'
    )
