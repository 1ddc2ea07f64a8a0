"""What page 15 warns of: a loader put in place of Trainer's own hears nothing of the epoch."""

import pytest
import torch
import transformers
from torch.utils.data import DataLoader, IterableDataset

from rankbook.data.equal_steps import EqualStepsLoader


class Stream(IterableDataset):
    def __init__(self):
        self.epochs = []

    def set_epoch(self, epoch):
        self.epochs.append(epoch)

    def __iter__(self):
        for number in range(4):
            yield {"x": torch.tensor([float(number)]), "labels": torch.tensor([number])}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x, labels):
        return {"loss": self.layer(x).square().mean()}


@pytest.mark.parametrize(
    ("loader", "heard"),
    [
        (None, {0, 1}),
        (lambda stream: DataLoader(stream, 2), set()),
        (lambda stream: EqualStepsLoader(DataLoader(stream, 2), torch.device("cpu")), {0, 1}),
    ],
    ids=["Trainer's own", "a plain one", "in step"],
)
def test_who_tells_the_set_its_epoch(loader, heard, tmp_path):
    class OwnLoader(transformers.Trainer):
        def get_train_dataloader(self):
            return loader(self.train_dataset)

    options = transformers.TrainingArguments(
        str(tmp_path), use_cpu=True, max_steps=4, per_device_train_batch_size=2,
        report_to="none", save_strategy="no", disable_tqdm=True, remove_unused_columns=False,
    )  # fmt: skip
    kind, stream = (OwnLoader if loader else transformers.Trainer), Stream()
    kind(Model(), options, train_dataset=stream).train()
    assert set(stream.epochs) == heard
