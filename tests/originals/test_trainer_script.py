"""The training script of "Transformers多机多卡的炼丹实践", repaired and run on 2 ranks x 2 workers.

Beside it `CeilSplitLines` under a Trainer: which lines reach the model? Page T41 counts the same.
"""

import os
import re
from argparse import Namespace
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from rankbook.data import CeilSplitLines, audit_samples
from tests.distributed.launch import run_ranks
from tests.distributed.trainer_ranks import arguments, tiny
from tests.originals.listing import listing
from tests.originals.test_multi_node_reader import HEAD, TEXT
from tests.originals.test_multi_node_reader import printed as printed_reader
from tests.originals.test_multi_node_reader import repaired as repaired_reader

LINES, BATCH = 40, 5
REPAIRS = {
    # it does not parse, and one name is another one's
    r"(sum\(1 for line in open\(.*\))$": r"\1)",
    "eval_dataset=eval_dataset": "eval_dataset=dev_dataset",
    # arguments that were there when it was written
    "evaluation_strategy=": "eval_strategy=",
    r" *overwrite_output_dir=True,\n": "",
    # 2 workers here
    "dataloader_num_workers=10": "dataloader_num_workers=2",
}


def printed() -> str:
    return listing(TEXT, "# 定义模型", "trainer.train()")


def repaired(text: str) -> str:
    """What is printed, so that it runs with today's transformers."""
    for wrong, right in REPAIRS.items():
        text, places = re.subn(wrong, right, text, flags=re.MULTILINE)
        assert places == 1, wrong
    return text


def numbers_of(lines: list[str]) -> dict[str, torch.Tensor]:
    ids = torch.tensor([[int(line), 0] for line in lines])
    return {"input_ids": ids, "labels": ids}


def noting(kind, seen: list[int]):
    """A kind of Trainer that notes what its model is trained on."""

    class Noting(kind):
        def training_step(self, model, inputs, *more):
            seen.extend(inputs["input_ids"][:, 0].tolist())
            return super().training_step(model, inputs, *more)

    return Noting


def kinds() -> dict:
    from transformers import Trainer

    class Old(Trainer):
        """As it treated an iterable set before April 2021: it left its loader alone."""

        def get_train_dataloader(self):
            workers = {"num_workers": 2, "multiprocessing_context": "fork"}
            return DataLoader(self.train_dataset, BATCH, collate_fn=self.data_collator, **workers)

    return {"old": Old, "today": Trainer}


def of_the_listing(kind, reader: str, script: str, path: str) -> tuple[list[int], int]:
    """The lines that its model was trained on, on this rank; and its own number of steps."""
    from transformers import TrainingArguments

    seen: list[int] = []
    here = {"use_cpu": True, "report_to": "none", "disable_tqdm": True}
    here |= {"dataloader_multiprocessing_context": "fork"}
    options = Namespace(
        train_data_file=path, eval_data_file=path, output_dir=f"{path}.out", num_train_epochs=1,
        train_batch_size=BATCH, eval_batch_size=BATCH, logging_steps=2, eval_steps=2,
        learning_rate=5e-5,
    )  # fmt: skip
    names = {
        "args": options,
        "CustomModel": tiny,
        "CustomDataset": lambda path: Path(path).read_text("utf-8").split(),
        "TrainingArguments": partial(TrainingArguments, **here),
        "Trainer": noting(kind, seen),
        "data_collator": numbers_of,
    }
    exec(HEAD + reader, names)
    exec(script, names)
    evaluated = [
        log["eval_loss"] for log in names["trainer"].state.log_history if "eval_loss" in log
    ]
    assert len(evaluated) == 2  # after steps 2 and 4
    return seen, names["max_steps"]


def re_created(kind, path: str, steps: int) -> list[int]:
    seen: list[int] = []
    options = arguments(
        per_device_train_batch_size=BATCH, max_steps=steps, dataloader_num_workers=2
    )
    lines = CeilSplitLines(path, LINES, dist.get_rank(), dist.get_world_size())
    noting(kind, seen)(tiny(), options, numbers_of, lines).train()
    return seen


def both(reader: str, script: str, path: str) -> dict:
    os.environ |= {"DS_ACCELERATOR": "cpu", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"RANK": str(dist.get_rank()), "LOCAL_RANK": str(dist.get_rank())}
    found = {}
    for name, kind in kinds().items():
        seen, steps = of_the_listing(kind, reader, script, path)
        found[name] = {"steps": steps, "listing": seen, "ours": re_created(kind, path, steps)}
    return found


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> list[dict]:
    folder = tmp_path_factory.mktemp("ranks")
    path = folder / "train.txt"
    path.write_text("".join(f"{n}\n" for n in range(LINES)), "utf-8")
    # of the reader's listing its class: the two lines below it open a file of another name
    reader = repaired_reader(printed_reader()).partition("train_file_lines =")[0]
    script = repaired(printed())
    return run_ranks(both, folder, 2, reader, script, str(path))


def test_the_re_creation_trains_on_what_the_listing_trains_on(found):
    for rank in found:
        for seen in rank.values():
            assert seen["ours"] == seen["listing"]
            assert seen["steps"] == 4  # 40 lines, 2 ranks, batches of 5


def test_dividing_by_hand_was_right(found):
    assert audit_samples([rank["old"]["listing"] for rank in found], LINES).exactly_once


def test_today_only_the_share_of_rank_0_reaches_the_model(found):
    audit = audit_samples([rank["today"]["listing"] for rank in found], LINES)
    assert audit.which(2) == list(range(20)) and audit.never == 20


def test_as_printed_it_does_not_parse():
    with pytest.raises(SyntaxError):
        compile(printed(), "printed", "exec")
    compile(repaired(printed()), "repaired", "exec")
