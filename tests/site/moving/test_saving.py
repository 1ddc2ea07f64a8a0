"""The figure on saving says what `rankbook.predict.cost_model` says of the time that is lost."""

from itertools import product

from rounding import fixed

from rankbook.predict.cost_model import best_period, exact_best_period, lost_parts, lost_share

PERIODS, MTBFS = (10, 60, 300, 1800, 3600, 21600, 86400), (600, 3600, 10800, 86400, 2592000)
SAVES, RESTARTS = (0.05, 1, 30, 600), (5, 300, 3600)
UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 0))


def time(seconds: float) -> str:
    """As the figure writes it."""
    unit, one = next((unit, least or 1) for unit, least in UNITS if seconds >= least)
    value = seconds / one
    digits = 2 if value < 1 else 1 if value < 10 else 0
    written = fixed(value, digits)
    return f"{written.rstrip('0').rstrip('.') if '.' in written else written}\u202f{unit}"


def by_python(save: float, period: float, mtbf: float, restart: float) -> dict[str, str]:
    """What the figure has to show."""
    best, parts = exact_best_period(save, mtbf), lost_parts(save, period, mtbf, restart)
    lost = lost_share(save, period, mtbf, restart)
    shares = {"lost": lost, "least": lost_share(save, best, mtbf, restart), **vars(parts)}
    digits = 3 if lost < 0.01 else 2
    periods = {"best": time(best), "young": time(best_period(save, mtbf))}
    return periods | {name: fixed(100 * x, digits) for name, x in shares.items()}


def test_it_computes_what_python_computes(ask):
    names = ("period", "mtbf", "save", "restart")
    chosen = [
        dict(zip(names, values, strict=True)) for values in product(PERIODS, MTBFS, SAVES, RESTARTS)
    ]
    assert len(chosen) == 420
    for settings, shown in zip(chosen, ask("saving", chosen), strict=True):
        assert shown == by_python(**settings), settings


def test_by_touch_and_by_keyboard(bare):
    page = bare("saving", viewport={"width": 360, "height": 740}, has_touch=True)
    page.locator("input[name=mtbf]").tap()  # in the middle
    page.locator("input[name=restart]").press("End")
    page.locator("input[name=period]").press("ArrowLeft")
    settings = page.evaluate("Moving.chosen('saving')")
    del settings["frame"]
    assert settings["restart"] == 3600 and settings["period"] == 2700
    expected = by_python(**settings)
    said = page.inner_text(".moving-said")
    assert expected["lost"] in said and expected["least"] in said and expected["best"] in said
    drawn = page.locator(".moving-drawing").text_content()
    assert all(expected[part] in drawn for part in ("saves", "again", "restarts"))
