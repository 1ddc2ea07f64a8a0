"""The tools under test live in ``book/``, beside the texts they check."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "book"))
