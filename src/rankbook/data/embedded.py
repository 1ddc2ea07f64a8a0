"""Data for a machine with neither files nor a network: the same on every rank, nothing stored."""

import random
import re
from bisect import bisect_right
from collections import Counter
from itertools import product

# Words in an IMDB review by the share of reviews that are shorter. Counted, split at whitespace,
# over the 50,000 reviews of Maas et al. 2011, whose mean is 231.2.
SHORTER = (
    *(0.00, 0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40, 0.45, 0.50, 0.55),
    *(0.60, 0.65, 0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 0.98, 0.99, 0.999, 1.00),
)
WORDS = (
    *(4, 63, 90, 109, 119, 126, 133, 142, 151, 161, 173, 187),
    *(204, 224, 248, 280, 320, 372, 451, 590, 779, 908, 1010, 2470),
)
REVIEWS = 50_000

_TOPICS = (
    *("the plot", "the lead actor", "the ending", "the soundtrack", "the script", "the opening"),
    *("every scene", "the dialogue", "the camera work", "the second half", "the whole cast"),
    *("her performance", "the director's touch", "the humour", "the villain", "the pace"),
)
_VERBS = ("is", "was", "felt", "seemed", "turned out")
_GRADES = ("", "rather", "truly", "quite", "really", "simply")
_GOOD = (
    *("brilliant", "moving", "funny", "clever", "gripping", "charming", "fresh", "memorable"),
    *("superb", "honest", "beautiful", "warm", "sharp", "rewarding", "believable", "a delight"),
)
_BAD = (
    *("dull", "awful", "clumsy", "predictable", "lifeless", "tedious", "shallow", "forgettable"),
    *("wooden", "fake", "ugly", "cold", "confused", "annoying", "pointless", "a mess"),
)
_WHO = ("my brother", "a friend", "I", "we", "my neighbour", "the man next to me")
_DID = ("saw it", "rented it", "came across it", "watched this one", "heard about it")
_WHEN = (
    *("on a rainy Sunday", "late at night", "at a small festival", "on an old tape", "last year"),
    *("without knowing the book", "after the second film", "because of the poster"),
)


def prose() -> dict[str, str]:
    """Return English text as ``train``, ``valid`` and ``test``: 80, 10 and 10 % of its paragraphs.

    It is what ``help()`` shows about Python, paragraphs on lines of their own. Only what reads
    as a sentence is kept, and once: topics repeat each other, and no paragraph of one split may
    stand in another. The text is that of this Python's version.
    """
    from pydoc_data.topics import topics

    whole = (" ".join(p.split()) for name in sorted(topics) for p in topics[name].split("\n\n"))
    paragraphs = [p for p in dict.fromkeys(whole) if p.endswith((".", ":")) and p.count(" ") > 4]
    train, valid = len(paragraphs) * 8 // 10, len(paragraphs) * 9 // 10
    return {
        "train": "\n".join(paragraphs[:train]),
        "valid": "\n".join(paragraphs[train:valid]),
        "test": "\n".join(paragraphs[valid:]),
    }


def reviews(count: int = REVIEWS, seed: int = 0) -> tuple[list[str], list[int]]:
    """Return `count` made-up film reviews and their labels: 1 praises, 0 does not, half of each.

    Lengths follow IMDB's distribution. Of a review's opinions, 55 to 95 % agree with its label,
    so counting words finds most labels and not all. The same on every machine and Python: only
    ``random.random`` is drawn from, whose sequence for a seed is fixed.
    """
    draw = random.Random(seed).random
    labels = sorted([i % 2 for i in range(count)], key=lambda _: draw())
    neutral = _sentences(_WHO, _DID, _WHEN)
    opinions = [_sentences(_TOPICS, _VERBS, _GRADES, side) for side in (_BAD, _GOOD)]
    return [_review(label, draw, neutral, opinions) for label in labels], labels


def _sentences(*parts: tuple[str, ...]) -> list[list[str]]:
    """Return every sentence, as words, that takes one of each of `parts`."""
    sentences = (" ".join(words).split() for words in product(*parts))
    return [[first[0].upper() + first[1:], *rest, f"{end}."] for first, *rest, end in sentences]


def _review(label: int, draw, neutral: list, opinions: list) -> str:
    """Return one review for `label`, cut at a length drawn by linear interpolation."""
    place = draw()
    i = bisect_right(SHORTER, place)  # at least 1, since the first share is 0
    part = (place - SHORTER[i - 1]) / (SHORTER[i] - SHORTER[i - 1])
    length = round(WORDS[i - 1] + (WORDS[i] - WORDS[i - 1]) * part)
    agreeing = 0.55 + 0.4 * draw()
    words: list[str] = []
    while len(words) < length:
        if draw() < 0.6:
            words += neutral[int(draw() * len(neutral))]
        else:
            side = opinions[label if draw() < agreeing else 1 - label]
            words += side[int(draw() * len(side))]
    return " ".join(words[:length])


def wordpieces() -> list[str]:
    """Return a small uncased WordPiece vocabulary, by id: what DistilBERT's is to real text.

    The five special tokens, then every character alone and as a continuation (``##a``), so that
    no ASCII word is unknown, then the whole words of `prose` and of some `reviews`, the most
    frequent first. Counted, not trained, so that all ranks are sure to get the same ids.
    """
    text = " ".join([*prose().values(), *reviews(500)[0]]).lower()
    counts = Counter(re.findall(r"[a-z]{2,}", text))
    characters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    return [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
        *characters,
        *(f"##{character}" for character in characters),
        *sorted(counts, key=lambda word: (-counts[word], word)),
    ]
