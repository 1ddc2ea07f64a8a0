"""The figure on padding says what `rankbook.speed.padding` says of the chapter's reviews."""

from itertools import product

import torch
from bookext.moving_data import padding as told
from rounding import fixed

from rankbook.models import ClassifierConfig
from rankbook.speed import WAYS, Order, padding, size, tokenised

SIZES, LIMITS, POOLS = (1, 2, 12, 24, 64, 128), (64, 256, 512, 1024, 2048), (1, 5, 50)


def lengths() -> torch.Tensor:
    """Of the recorded reviews, in the order of the files."""
    in_epoch = torch.tensor(told.data()["lengths"])
    epoch = torch.cat(Order(in_epoch, "packed", 1).batches())
    return torch.empty_like(in_epoch).scatter(0, epoch, in_epoch)


def by_python(reviews: torch.Tensor, way: str, batch: int, limit: int, pool: int) -> dict[str, str]:
    """What the figure has to show."""
    cut = reviews.clamp(max=limit)
    every = {name: padding(cut, name, batch, pool=pool) for name in WAYS}
    mine = every[way]
    products, real = (mine.flop - mine.attention), (mine.real_flop - mine.real_attention)
    shares = {
        "wasted": 1 - mine.real_flop / mine.flop,
        "linear": 1 - real / products,
        "attention": 1 - mine.real_attention / mine.attention,
        **{f"wasted-{i}": 1 - p.real_flop / p.flop for i, p in enumerate(every.values())},
    }
    ratios = {f"ratio-{i}": each.arithmetic_ratio for i, each in enumerate(every.values())}
    ratios["computed"] = mine.token_ratio
    percent = {key: fixed(100 * share, 1) for key, share in shares.items()}
    return percent | {key: fixed(ratio, 2) for key, ratio in ratios.items()}


def test_it_computes_what_python_computes(ask):
    reviews = lengths()
    chosen = [
        {"way": way, "batch": batch, "limit": limit, "pool": pool}
        for way, batch, limit, pool in product(WAYS, SIZES, LIMITS, POOLS)
    ]
    assert len(chosen) == 360
    for settings, shown in zip(chosen, ask("padding", chosen), strict=True):
        assert shown == by_python(reviews, **settings), settings


def test_by_touch_and_by_keyboard(bare):
    page = bare("padding", viewport={"width": 360, "height": 740}, has_touch=True)
    page.locator("select[name=way]").select_option("bucketed")
    slider = page.locator("input[name=batch]")
    slider.tap()  # in the middle
    slider.press("ArrowRight")
    settings = page.evaluate("Moving.chosen('padding')")
    assert settings.pop("frame") is not None and settings["way"] == "bucketed"
    expected = by_python(lengths(), **settings)
    for key in ("linear", "attention", "computed"):
        assert page.inner_text(f"[data-shown={key}]") == expected[key]
    assert f"{expected['wasted']}%" in page.inner_text(".moving-said")


def test_the_recorded_reviews_are_the_chapters():
    of_page = torch.cat([part.lengths for part in tokenised(size("cpu")).values()])
    if not torch.equal(of_page, lengths().clamp(max=512)):  # without IMDB's files: made-up ones
        assert len(of_page) == len(lengths())


def test_the_arithmetic_is_that_of_the_chapters_model():
    model, config = told.data()["model"], ClassifierConfig()
    assert model == {
        "width": config.d_model,
        "hidden": config.d_hidden,
        "layers": config.layers,
        "classes": config.classes,
    }
