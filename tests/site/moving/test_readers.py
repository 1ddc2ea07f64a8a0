"""`readers` shows what bookext.moving_twins.readers computes, sample for sample."""

import itertools
import random

from bookext.moving_twins.readers import Job, shares

from rankbook.data import audit_samples
from tests.site.moving.test_moving import WRONG_WORDS

WAYS = {
    "nobody": "nobody",
    "by_rank": "by rank",
    "by_worker": "by worker",
    "by_both": "by both",
    "no_sampler": "no sampler",
    "sampler": "sampler",
    "shuffled": "sampler",
    "set_epoch": "sampler",
    "rounded_up": "rounded up",
    "by_bytes": "by bytes",
}
EVERY = [
    {"way": way, "ranks": ranks, "workers": workers, "samples": samples, "drop_last": drop_last}
    for way, ranks, workers, samples, drop_last in itertools.product(
        WAYS, (1, 2, 3, 8), (0, 1, 2, 4), (4, 11, 24), (False, True)
    )
]
EPOCHS = [
    {"way": way, "ranks": ranks, "workers": 2, "samples": samples, "drop_last": drop_last,
     "frame": frame}
    for way, ranks, samples, drop_last, frame in itertools.product(
        ("shuffled", "set_epoch"), (1, 2, 5), (4, 11, 23), (False, True), (1, 5, 9)
    )
]  # fmt: skip


def expected(chosen: dict) -> dict[str, str]:
    if chosen["way"] == "rounded_up" and not chosen["workers"]:
        return {"fails": "AttributeError"}
    total, frame = chosen["samples"], chosen.get("frame", 0)
    found = [found_in(chosen, epoch) for epoch in range(frame + 1)]
    audits = [audit_samples([share.read for share in of.values()], total) for of in found]
    now, audit = found[-1], audits[-1]
    batches = [
        sum(share.batches for reader, share in now.items() if reader.rank == rank)
        for rank in range(chosen["ranks"])
    ]
    fewest, most = min(batches), max(batches)
    sums = [sum(audit.times[sample] for audit in audits) for sample in range(total)]
    return {
        "once": str(audit.once),
        "more": str(audit.twice + audit.more),
        "never": str(audit.never),
        **({"others": str(audit.extra)} if audit.extra else {}),
        "batches": str(most) if fewest == most else f"{fewest}–{most}",
        "read": "|".join(" ".join(map(str, share.read)) for share in now.values()),
        "dropped": "|".join(" ".join(map(str, share.dropped)) for share in now.values()),
        "times": " ".join(map(str, audit.times.values())),
        "together": " ".join(map(str, sums)),
    }


def found_in(chosen: dict, epoch: int) -> dict:
    job = Job(
        chosen["ranks"],
        chosen["workers"],
        drop_last=chosen["drop_last"],
        shuffle=chosen["way"] in ("shuffled", "set_epoch"),
        epoch=epoch if chosen["way"] == "set_epoch" else 0,
    )
    return shares(WAYS[chosen["way"]], chosen["samples"], job)


def test_every_way_of_sharing(ask):
    assert len(EVERY) > 700
    for chosen, shown in zip(EVERY, ask("readers", EVERY), strict=True):
        assert shown == expected(chosen), chosen


def test_the_order_of_torch_in_each_epoch(ask):
    for chosen, shown in zip(EPOCHS, ask("readers", EPOCHS), strict=True):
        assert shown == expected(chosen), chosen


def test_any_settings(ask):
    draw = random.Random(0)
    settings = [
        {
            "way": draw.choice(list(WAYS)),
            "ranks": draw.randint(1, 8),
            "workers": draw.randint(0, 4),
            "samples": draw.randint(4, 24),
            "drop_last": draw.random() < 0.5,
        }
        for _ in range(200)
    ]
    for chosen, shown in zip(settings, ask("readers", settings), strict=True):
        assert shown == expected(chosen), chosen


def test_with_the_controls(bare):
    page = bare("readers")
    page.select_option("select[name=way]", "shuffled")
    page.locator("input[name=ranks]").press("ArrowRight")
    page.locator(".moving-player input").press("End")
    chosen = {"way": "shuffled", "ranks": 3, "workers": 2, "samples": 11, "drop_last": True,
              "frame": 9}  # fmt: skip
    numbers = {e.get_attribute("data-shown"): e.inner_text() for e in page.locator("strong").all()}
    shown = expected(chosen)
    assert numbers == {key: shown[key] for key in ("once", "more", "never", "batches")}
    assert "all 10 epochs are alike. Never read: 2." in page.inner_text(".moving-said")
    assert page.locator(".moving-drawing rect[stroke-dasharray]").count() == 0  # nothing to drop
    page.select_option("select[name=way]", "by_both")
    assert not page.locator(".moving-player").is_visible()


def test_a_reader_without_workers_fails(bare):
    page = bare("readers")
    page.select_option("select[name=way]", "rounded_up")
    page.locator("input[name=workers]").press("Home")
    assert "AttributeError" in page.locator(".moving-drawing svg").text_content()
    assert "there is no worker" in page.inner_text(".moving-said")


def test_epoch_after_epoch(bare):
    page = bare("readers", "zh", viewport={"width": 360, "height": 740}, has_touch=True)
    page.select_option("select[name=way]", "set_epoch")
    page.locator("input[name=samples]").press("End")
    at = page.locator(".moving-player input")
    assert at.get_attribute("max") == "9" and at.input_value() == "0"
    page.locator(".moving-on").tap()
    assert at.input_value() == "1" and "2 个 epoch 里" in page.inner_text(".moving-said")
    for frame in range(10):
        at.fill(str(frame))
        assert page.evaluate(WRONG_WORDS) == [], frame
