"""Numbers as people write them: 7.5B parameters, batches of 4M tokens, 48e9 bytes."""

import math
import re

_WRITTEN = re.compile(r"(\d+(?:\.\d*)?(?:e[+-]?\d+)?)([kmbt]?)", re.IGNORECASE)
DECIMAL = {"": 1.0, "k": 1e3, "m": 1e6, "b": 1e9, "t": 1e12}
# batches are counted in sequences, and those are powers of two: 4M tokens are 1,024 of 4,096
BINARY = {"": 1.0, "k": 2.0**10, "m": 2.0**20, "b": 2.0**30}


def parameters(text: str) -> int:
    """How many parameters "7.5B", "350M" or "7.5e9" are: B is 10^9. Raises ValueError."""
    return _read(text, "parameters", "7.5e9, 7.5B or 350M", DECIMAL)


def tokens(text: str, example: str = "4M (that is 4 x 2^20) or 4194304") -> int:
    """How many tokens "4M", "512k" or "4194304" are: M is 2^20. Raises ValueError."""
    return _read(text, "tokens", example, BINARY)


def count(text: str, what: str) -> int:
    """A whole number of 1 or more, of `what`. Raises ValueError."""
    if not text.isdecimal() or not text.isascii() or int(text) < 1:
        raise ValueError(f"{text!r} is no number of {what}; give a whole number of 1 or more")
    return int(text)


def amount(text: str, what: str, example: str = "48e9") -> float:
    """A number above 0, as of bytes or FLOP/s, of `what`. Raises ValueError."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"{what}={text} is no number above 0; write it as {example}")
    return value


def short(value: float) -> str:
    """7,500,000,000 as "7.5 B", for people; three digits."""
    for size, name in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.3g}"


def _read(text: str, what: str, example: str, units: dict[str, float]) -> int:
    found = _WRITTEN.fullmatch(text.strip())
    unit = found[2].lower() if found else "?"
    value = float(found[1]) * units[unit] if found and unit in units else 0.0
    broken = unit == "" and value % 1 > 0  # half a token
    if broken or not 1 <= value < math.inf:
        raise ValueError(f"{text!r} is no number of {what}; write {example}")
    return round(value)
