"""`collectives` shows what bookext.moving_twins.collectives computes, to the last digit."""

import itertools

import pytest
from bookext.moving_twins.collectives import Collective, collective

from tests.site.moving.rounding import fixed

WAYS = {
    "ring": "ring",
    "reduce_scatter": "reduce_scatter",
    "all_gather": "all_gather",
    "halving": "halving and doubling",
    "tree": "tree",
    "rank0": "by rank 0",
}
ALL_REDUCES = ["rank0", "tree", "ring", "halving"]
HALVES = ["reduce_scatter", "all_gather", "ring"]
COMPARED = {way: HALVES if way in HALVES[:2] else ALL_REDUCES for way in WAYS}
LINKS = [(2**24, 175, 2.6), (2**10, 1, 400), (2**30, 1000, 0.1), (2**18, 20, 25), (2**26, 5, 100)]
SETTINGS = [
    {"way": way, "n": n, "nbytes": nbytes, "alpha": alpha, "gbs": gbs, "frame": frame}
    for way, n, (nbytes, alpha, gbs) in itertools.product(WAYS, range(2, 9), LINKS)
    for frame in {1, n // 2, len(collective(WAYS[way], n).steps)}
]


def short(x: float) -> str:
    written = fixed(x, 2 if x < 10 else 1 if x < 100 else 0)
    return written.rstrip("0").rstrip(".") if "." in written else written


def unit(nbytes: float) -> tuple[str, int]:
    if nbytes >= 2**30:
        return "GiB", 2**30
    return ("MiB", 2**20) if nbytes >= 2**20 else ("KiB", 2**10)


def time(x: float) -> str:
    if x < 1e-3:
        return f"{short(x * 1e6)} µs"
    return f"{short(x * 1e3)} ms" if x < 1 else f"{short(x)} s"


def expected(chosen: dict) -> dict[str, str]:
    found, frame = collective(WAYS[chosen["way"]], chosen["n"]), chosen["frame"]
    nbytes, ranks, last = chosen["nbytes"], range(found.n), len(found.steps)
    link = (nbytes, chosen["alpha"] * 1e-6, 1e-9 / chosen["gbs"])
    most = max(found.sent(rank, last) for rank in ranks) * nbytes
    name, one = unit(most)
    return {
        "now": time(found.seconds(frame, *link)),
        "total": time(found.seconds(last, *link)),
        "row": str(last),
        "busiest": f"{short(most / one)} {name}",
        "sentByRank": " ".join(
            short(found.sent(rank, frame) * nbytes / unit(nbytes)[1]) for rank in ranks
        ),
        "heldBits": held(found, frame),
        "messages": " ".join(
            f"{m.source}>{m.target}:{m.first}+{m.count}" for m in found.steps[frame - 1]
        ),
        "times": ", ".join(
            f"{way} {time(other.seconds(len(other.steps), *link))}"
            for way in COMPARED[chosen["way"]]
            for other in [collective(WAYS[way], found.n)]
        ),
    }


def held(found: Collective, frame: int) -> str:
    rows = [[sum(1 << rank for rank in chunk) for chunk in row] for row in found.held(frame)]
    return "|".join(" ".join(map(str, row)) for row in rows)


def test_some_hundred_settings(ask):
    assert len(SETTINGS) > 400
    for chosen, shown in zip(SETTINGS, ask("collectives", SETTINGS), strict=True):
        assert shown == expected(chosen), chosen


@pytest.mark.parametrize("way", WAYS)
def test_before_the_first_step(ask, way):
    (shown,) = ask("collectives", [{"way": way, "n": 5, "frame": 0}])
    found = collective(WAYS[way], 5)
    assert shown["now"] == "0 µs" and shown["sentByRank"] == "0 0 0 0 0"
    assert shown["heldBits"] == held(found, 0) and shown["messages"] == ""


def test_with_the_controls(bare):
    page = bare("collectives")
    page.select_option("select[name=way]", "tree")
    page.locator("input[name=n]").focus()
    page.keyboard.press("End")
    page.locator("input[name=nbytes]").press("Home")
    page.locator(".moving-player input").press("End")
    tree = {"way": "tree", "n": 8, "nbytes": 2**10, "alpha": 175, "gbs": 2.6, "frame": 6}
    numbers = {e.get_attribute("data-shown"): e.inner_text() for e in page.locator("strong").all()}
    assert numbers == {key: expected(tree)[key] for key in ("now", "row", "busiest")}
    assert page.inner_text(".moving-said").endswith("Now every rank holds the sum.")
    assert expected(tree)["total"] in page.locator(".moving-drawing svg").text_content()


def test_a_tap_steps_on(bare):
    page = bare("collectives", viewport={"width": 360, "height": 740}, has_touch=True)
    assert "Step 2 of 6" in page.inner_text(".moving-said")
    page.locator(".moving-drawing").tap()
    page.wait_for_function("document.querySelector('.moving-said').textContent.includes('3 of 6')")
    assert "data-shown" in page.inner_html(".moving-numbers")
