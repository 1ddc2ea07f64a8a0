"""The reviews of the ladder as token ids in a file: IMDB's, or generated ones of like lengths.

A borrowed box may lack the packages that read and tokenise IMDB. Times need only the lengths;
accuracies need the real texts, and the result says which it had.
"""

import argparse
import sys
from pathlib import Path

from rankbook.speed.reviews import Reviews, synthetic
from rankbook.speed.sizes import Size, size
from rankbook.speed.token_file import load_tokens, save_tokens
from rankbook.speed.tokenising import tokenised


def main(arguments: list[str] | None = None) -> int:
    """Write the file, if it is not there yet; say where the reviews come from."""
    parser = argparse.ArgumentParser(description="Write the ladder's reviews as token ids.")
    parser.add_argument("--size", choices=["cpu", "full"], default="full", help="(full)")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    chosen = size(options.size)
    if not options.out.exists():
        save_tokens(splits(chosen), chosen, options.out)
    print(f"{options.out.name}: {load_tokens(options.out, chosen)['train'].source}")
    return 0


def splits(chosen: Size) -> dict[str, Reviews]:
    """IMDB's if this Python can read and tokenise it, else generated ones."""
    try:
        return tokenised(chosen)
    except ImportError as lacking:
        print(f"generated reviews, since {str(lacking)[0].lower()}{str(lacking)[1:]}")
    return {
        name: synthetic(count, chosen, seed)
        for seed, (name, count) in enumerate(chosen.splits.items())
    }


if __name__ == "__main__":
    sys.exit(main())
