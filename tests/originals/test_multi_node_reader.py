"""The reader of "Transformers多机多卡的炼丹实践": its own listing beside two of ours.

Ours are page T41's and `CeilSplitLines`. 2 ranks x 2 workers: a rank is what ``RANK`` says,
the loaders' workers are real processes.
"""

import json
import re
from itertools import islice
from pathlib import Path

import pytest
from torch.utils.data import DataLoader, get_worker_info

from rankbook.data import CeilSplitLines
from tests.originals.listing import listing

TEXT = "4-transformers-multi-node-trainer.md"
RANKS = WORKERS = 2
PAGE = Path(__file__).parents[2] / "chapters" / "en" / "T41_streams.ipynb"
HEAD = "import math, os, torch\nfrom torch.utils.data import IterableDataset\n"


def printed() -> str:
    """The second reader of the text, the one that shares out, with the two lines that call it."""
    text = listing(TEXT, "但是这里只处理了", "train_dataset = ")
    return text[text.index("class CustomIterableDataset") :]


def repaired(text: str) -> str:
    """What is printed, so that it parses: an f-string is given its rank, `sum(` is closed."""
    text, places = re.subn(r"rank编号:\{\}", "rank编号:{self.rank}", text)
    assert places == 1
    text, places = re.subn(r"(sum\(1 for line in open\(.*\))$", r"\1)", text, flags=re.MULTILINE)
    assert places == 1
    return text


def of_the_page():
    """The class that the page writes into its file ``readers.py``."""
    cells = {cell["id"]: cell for cell in json.loads(PAGE.read_text("utf-8"))["cells"]}
    magic, _, source = "".join(cells["reader-source"]["source"]).partition("\n")
    assert magic.startswith("%%writefile")
    names: dict = {}
    exec(source, names)
    return names["CustomIterableDataset"]


@pytest.fixture
def original(monkeypatch, tmp_path):
    """Return a function: the data set that the listing makes of a text, on a rank of two."""

    def make(text: str, rank: int):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(RANKS))
        (tmp_path / "big_file.txt").write_text(text, "utf-8")
        names: dict = {}
        exec(HEAD + repaired(printed()), names)
        return names["train_dataset"]

    return make


def by_worker(batch: list) -> tuple[int, list]:
    return get_worker_info().id, batch


def read(dataset, each: int) -> list[list[str]]:
    """The first `each` samples of each worker."""
    found: list[list[str]] = [[] for _ in range(WORKERS)]
    loader = DataLoader(
        dataset, 1, num_workers=WORKERS, collate_fn=by_worker, multiprocessing_context="fork"
    )
    for worker, batch in islice(loader, each * WORKERS):
        found[worker] += batch
    return found


TEXTS = {
    "9 lines for 4 readers": "".join(f"{i}\n" for i in range(9)),
    "8 lines": "".join(f"{i}\n" for i in range(8)),
    "3 lines": "a\nb\nc\n",
    "no end of line, blanks, indented": "a\n\n  b \n\tc\n中文\nd",
    "another end of line": "a\r\nb\r\nc\r\n",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_re_creation_gives_what_the_listing_gives(original, text, tmp_path):
    for rank in range(RANKS):
        theirs = original(text, rank)
        ours = CeilSplitLines(tmp_path / "big_file.txt", len(text.splitlines()), rank, RANKS)
        found = read(theirs, 7)
        assert read(ours, 7) == found
        page = of_the_page()(tmp_path / "big_file.txt", len(text.splitlines()), rounds=99)
        samples = [[sample["text"] for sample in samples] for samples in read(page, 7)]
        assert samples == found
        assert [len(lines) for lines in found] == [7] * WORKERS  # and it would not end there


def test_the_fourth_reader_of_nine_lines_gives_nothing_for_ever(original):
    text = TEXTS["9 lines for 4 readers"]
    assert read(original(text, 0), 6) == [["0", "1", "2"] * 2, ["3", "4", "5"] * 2]
    assert read(original(text, 1), 6) == [["6", "7", "8"] * 2, [""] * 6]


def test_it_needs_workers(original, tmp_path):
    for dataset in (original("a\n", 0), CeilSplitLines(tmp_path / "big_file.txt", 1, 0, 2)):
        with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'num_workers"):
            next(iter(DataLoader(dataset)))


def test_it_needs_the_variables_of_a_launcher(original, monkeypatch, tmp_path):
    made = original("a\n", 0)
    monkeypatch.delenv("RANK")
    with pytest.raises(TypeError):
        type(made)("big_file.txt", 1)
    with pytest.raises(KeyError):
        CeilSplitLines(tmp_path / "big_file.txt", 1)


def test_two_places_do_not_parse():
    """As printed: the first is an f-string with nothing in its braces, the second is `sum(`."""
    text = printed()
    for source in (text, text.replace("rank编号:{}", "rank编号:{self.rank}")):
        with pytest.raises(SyntaxError):
            compile(source, "printed", "exec")
    compile(repaired(text), "repaired", "exec")


@pytest.mark.filterwarnings("ignore:This DataLoader will create 5 worker processes")
def test_the_example_of_pytorchs_documentation_is_right_for_one_rank():
    """It divides over the workers of one process: exactly once, for any number of them."""
    text = listing(TEXT, "class MyIterableDataset", "        return iter(range(")
    names: dict = {}
    exec("import math, torch\n" + text, names)
    for workers in (0, 2, 5):
        dataset = names["MyIterableDataset"](start=3, end=7)
        options = {"multiprocessing_context": "fork"} if workers else {}
        loader = DataLoader(dataset, 1, num_workers=workers, collate_fn=list, **options)
        assert sorted(number for batch in loader for number in batch) == [3, 4, 5, 6]
