"""The text's three programs, put in lines again and run, beside the book's: batch by batch.

What is downloaded stands in for itself, small: reviews, tokenizer, model. The model notes each of
its calls: its mode, what it was given, its loss. Both programs must make the same calls.
"""

import operator
import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
import torchmetrics  # noqa: F401  before transformers is stood in for, which it looks at
from torch import nn

from originals.faster_text import (
    WithLoss,
    common,
    fabric_program,
    plain_program,
    trainer_program,
)
from rankbook.models import Classifier
from rankbook.speed import Reviews, size
from tests.originals.listing import ORIGINALS
from tests.originals.lost_lines import COMMENTS, indented, statements

TEXT = "3-train-faster-distilbert-imdb.md"
HEAD = "import os\nimport os.path as op\n"
# how deep each statement stands; line breaks and indents are what was lost
LEVELS = {
    "plain": "0" * 12 + "01 012233433333433442333454443" + "000000 01" + "0" * 23 + "0 111 232220",
    "trainer": "0" * 17 + "01 01222222 12 122233332 1222222 122222 122 0 11111 12"
    + "1" * 27 + "122",
    "fabric": "0" * 15 + "01 0111122211111 012223333343344 22334443 3 0 11111 12"
    + "1" * 26 + "12223331",
}  # fmt: skip
REPAIRS = {  # what this machine has in place of four GPUs
    "plain": {},
    "trainer": {'accelerator="gpu",devices=[1]': 'accelerator="cpu",devices=1'},
    "fabric": {
        'accelerator="cuda", devices=4': 'accelerator="cpu", devices=1',
        'strategy="deepspeed_stage_2", precision="16-mixed"': 'precision="32-true"',
    },
}
OWN_LOADER = {"from torch.utils.data import DataLoader\n": ""}  # one that takes notes
SPLITS = {"train": 40, "validation": 30, "test": 26}  # none is a multiple of 12
SMALL = size("cpu", vocab_size=60, layers=1, d_model=16, d_hidden=32, heads=2, max_length=32,
             dropout=0.1, attention_dropout=0.1, head_dropout=0.2)  # fmt: skip


def printed(name: str) -> str:
    path = ORIGINALS / TEXT
    if not path.exists():
        pytest.skip(f"the original's text {TEXT} is not beside this checkout")
    text = path.read_text("utf-8")
    start = [match.start() for match in re.finditer(re.escape(HEAD), text)][
        list(LEVELS).index(name)
    ]
    return text[start : text.index("\n\n", start)]


def in_lines(name: str) -> str:
    return indented(statements(printed(name), diff=name == "fabric"), LEVELS[name])


def texts(name: str) -> list[list[int]]:
    generator = torch.Generator().manual_seed(len(name))
    return [
        [2, *torch.randint(5, 60, (int(n),), generator=generator).tolist(), 3]
        for n in torch.randint(3, 29, (SPLITS[name],), generator=generator)
    ]


def labels(name: str) -> list[int]:
    return [sum(text) % 2 for text in texts(name)]


class Noting(WithLoss):
    """The small model, the same each time, that notes how it is called."""

    def __init__(self):
        with torch.random.fork_rng(devices=[]):
            super().__init__(Classifier(SMALL.model).initialise(seed=0))
        self.calls: list[tuple] = []

    def forward(self, input_ids, attention_mask, labels):
        outputs = super().forward(input_ids, attention_mask, labels)
        rows = input_ids.tolist(), attention_mask.tolist(), labels.tolist()
        self.calls.append((self.training, outputs["loss"].item(), rows))
        return outputs


class Downloaded:
    """The data set: texts by split, which the listing has tokenised."""

    def map(self, tokenise, batched, batch_size):
        assert batched and batch_size is None  # a whole split at a time
        for name in SPLITS:
            found = tokenise({"text": texts(name)})
            columns = zip(found["input_ids"], found["attention_mask"], labels(name), strict=True)
            setattr(self, name, [
                {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask),
                 "label": torch.tensor(label)} for ids, mask, label in columns
            ])  # fmt: skip
        return self

    def set_format(self, kind, columns):
        assert (kind, columns) == ("torch", ["input_ids", "attention_mask", "label"])


class Tokenizer:
    model_max_length, vocab_size = 32, 60

    def __call__(self, texts, truncation, padding):
        assert truncation and padding is True  # to the longest of what it is given
        longest = max(map(len, texts))
        masks = [[1] * len(text) + [0] * (longest - len(text)) for text in texts]
        ids = [text + [0] * (longest - len(text)) for text in texts]
        return {"input_ids": ids, "attention_mask": masks}


def stand_ins(made: list[Noting]) -> dict[str, ModuleType | SimpleNamespace]:
    """The modules that a listing would take its downloads from."""

    def from_pretrained(name, num_labels):
        assert (name, num_labels) == ("distilbert-base-uncased", 2)
        made.append(Noting())
        return made[-1]

    def load_dataset(kind, data_files):
        assert kind == "csv" and list(data_files) == list(SPLITS)
        return Downloaded()

    local = SimpleNamespace(
        download_dataset=lambda: None,
        load_dataset_into_to_dataframe=lambda: None,
        partition_dataset=lambda frame: None,
        IMDBDataset=lambda whole, partition_key: getattr(whole, partition_key),
    )
    tokenizer = SimpleNamespace(from_pretrained=lambda name: Tokenizer())
    return {
        "datasets": SimpleNamespace(load_dataset=load_dataset),
        "transformers": SimpleNamespace(
            AutoTokenizer=tokenizer,
            AutoModelForSequenceClassification=SimpleNamespace(from_pretrained=from_pretrained),
        ),
        "watermark": SimpleNamespace(watermark=lambda **_: "versions"),
        "local_dataset_utilities": local,
    }


@pytest.fixture
def loaders(monkeypatch) -> list[dict]:
    """How loaders are made; without their processes, which change nothing but the time."""
    made, real = [], torch.utils.data.DataLoader

    def loader(dataset, **options):
        made.append({"shuffle": False} | options)
        return real(dataset, **options | {"num_workers": 0})

    # by name, in the two places that make them: Lightning looks at the class itself
    monkeypatch.setattr(common, "DataLoader", loader)
    return made


def halves(made: list[dict]) -> tuple[list[dict], list[dict]]:
    """The loaders of the listing, and those of the book, without their data."""
    kept = [{k: v for k, v in options.items() if k != "dataset"} for options in made]
    return kept[:3], kept[3:]


@pytest.fixture
def of_the_listing(monkeypatch, tmp_path, capsys, loaders):
    """Runs a listing; gives its model's calls and what it printed."""

    def run(name: str):
        made: list[Noting] = []
        for module, stand_in in stand_ins(made).items():
            monkeypatch.setitem(sys.modules, module, stand_in)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")
        program = in_lines(name)
        for wrong, right in (REPAIRS[name] | OWN_LOADER).items():
            assert program.count(wrong) == 1, wrong
            program = program.replace(wrong, right)
        names = {"__name__": "__main__", "DataLoader": common.DataLoader}
        exec(compile(program, name, "exec"), names)
        (model,) = made
        return model.calls, capsys.readouterr().out

    yield run
    torch.use_deterministic_algorithms(False)


def of_the_book(program, **options):
    made: list[Noting] = []

    def make() -> nn.Module:
        made.append(Noting())
        return made[-1]

    splits = {name: Reviews.of(texts(name), labels(name), 60) for name in SPLITS}
    accuracies = program(make, splits, **options)
    torch.use_deterministic_algorithms(False)
    return made[0].calls, accuracies


def said(printed: str, pattern: str) -> list[float]:
    return [float(number) / 100 for number in re.findall(pattern, printed)]


@pytest.mark.parametrize("name", LEVELS)
def test_only_white_space_and_comments_differ_from_what_is_printed(name):
    """And, of the diff, what it removes."""
    compile(in_lines(name), name, "exec")
    with pytest.raises(SyntaxError):
        compile(printed(name), name, "exec")
    its = COMMENTS.sub("", printed(name))
    if name == "fabric":
        its = re.sub(r"^- +device=device$", "", re.sub(r"^\+", "", its, flags=re.M), flags=re.M)
        place, its = 0, "".join(its.split())
        for statement in in_lines(name).splitlines():
            statement = "".join(statement.split())
            place = its.index(statement, place) + len(statement)
    else:
        assert "".join(in_lines(name).split()) == "".join(its.split())


def test_the_loop_makes_the_calls_of_the_listing(of_the_listing, loaders):
    its, out = of_the_listing("plain")
    ours, accuracies = of_the_book(plain_program)
    assert operator.eq(*halves(loaders)) and loaders[0]["num_workers"] == 1
    assert ours == its  # modes, batches and losses, dropout included
    modes = [training for training, _, _ in its]  # what is left of each split is dropped
    assert modes == [True, True, True, False, False] * 3 + [False] * 2
    assert said(out, r"Test accuracy ([\d.]+)%") == [pytest.approx(accuracies.test, abs=5e-5)]
    assert said(out, r"Val acc\.: ([\d.]+)%") == pytest.approx(accuracies.validation, abs=5e-5)
    assert said(out, r"Train acc\.: ([\d.]+)%") == pytest.approx(accuracies.training, abs=5e-5)


def test_the_trainer_makes_the_calls_of_the_listing(of_the_listing, loaders, tmp_path):
    its, out = of_the_listing("trainer")
    ours, accuracies = of_the_book(
        trainer_program, folder=tmp_path / "ours", accelerator="cpu", devices=1
    )
    assert operator.eq(*halves(loaders)) and loaders[0]["num_workers"] == 1
    assert ours == its
    assert len(its) == 2 + 3 * (3 + 2) + 2  # two of validation first, to see that it works
    (test,) = re.findall(r"'accuracy': ([\d.]+)", out)
    assert float(test) == pytest.approx(accuracies.test, abs=1e-6)


def test_fabric_makes_the_calls_of_the_listing(of_the_listing, loaders):
    def here():
        import lightning

        return lightning.Fabric(accelerator="cpu", devices=1, precision="32-true")

    its, out = of_the_listing("fabric")
    ours, accuracies = of_the_book(fabric_program, fabric=here)
    assert operator.eq(*halves(loaders)) and loaders[0]["num_workers"] == 2
    assert ours == its
    # three of training, two of validation: dropout is on in the first step of an epoch only
    modes = [training for training, _, _ in its]
    assert modes == [True, False, False, False, False] * 3 + [False] * 2
    assert said(out, r"Test accuracy ([\d.]+)%") == [pytest.approx(accuracies.test, abs=5e-5)]


def test_the_first_listing_has_no_guard_that_its_text_speaks_of():
    assert "if __name__" not in in_lines("plain") and "if __name__" in in_lines("trainer")


def test_excerpts_differ_from_the_listing_in_devices_and_precision():
    text = (ORIGINALS / TEXT).read_text("utf-8") if (ORIGINALS / TEXT).exists() else ""
    if not text:
        pytest.skip(f"the original's text {TEXT} is not beside this checkout")
    devices = re.findall(r"devices=(\[1\]|\d)", text)
    assert devices == ["[1]", "1", "[1]", "4", "4", "4"]
    assert re.findall(r'precision="([^"]+)"', text) == ["fp16", "16", "16", "16-mixed"]


def test_the_warm_up_of_the_side_note_is_a_forward_pass_in_32_bits():
    path = ORIGINALS / TEXT
    if not path.exists():
        pytest.skip(f"the original's text {TEXT} is not beside this checkout")
    (note,) = re.findall(
        r"model = torch\.compile\(model\)for.*?# start timing", path.read_text("utf-8")
    )
    assert "outputs = model(" in note
    assert not any(word in note for word in ("backward", "autocast", "half", "16"))
