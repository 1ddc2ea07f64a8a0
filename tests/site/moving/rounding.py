"""Numbers as a script writes them."""

from decimal import ROUND_HALF_UP, Decimal


def fixed(x: float, digits: int) -> str:
    """`x` as JavaScript's ``x.toFixed(digits)`` writes it: half up, of the double's exact value."""
    if x == 0:
        x = 0.0  # JavaScript writes no sign before a zero that is one
    return f"{Decimal(x).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):f}"
