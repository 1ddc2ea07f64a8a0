"""What elastic trains: a model, its optimizer, and samples that are a function of their number."""

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import Dataset, default_collate

from rankbook.core.agreement import rank0_first, rank_and_world
from rankbook.data import wikitext2
from rankbook.models import TransformerConfig, TransformerLM, initialise
from rankbook.programs.elastic.options import Options

SIZES = {"d_model": 64, "d_hidden": 128, "heads": 2, "layers": 2}


class NumberedSamples(Dataset[tuple[int, Tensor, Tensor]]):
    """Samples that are a function of their number: it, inputs and targets."""

    def __len__(self) -> int:
        raise NotImplementedError


@dataclass
class TrainingTask:
    """What is trained, and the samples that it is trained on."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    data: NumberedSamples

    def losses(self, model: nn.Module, share: list[Tensor] | None) -> Tensor:
        """The loss of each sample of `share`: (n,); the mean over its tokens or outputs.

        Without a share that of sample 0, which stands in where a sharded model needs this rank.
        """
        device = next(model.parameters()).device
        if share is None:
            share = default_collate([self.data[0]])
        _, inputs, targets = (tensor.to(device) for tensor in share)
        outputs = model(inputs)
        if targets.is_floating_point():
            return F.mse_loss(outputs, targets, reduction="none").mean(1)
        of_tokens = F.cross_entropy(
            outputs.flatten(0, 1).float(), targets.flatten(), reduction="none"
        )
        return of_tokens.view_as(targets).mean(1)


def make_task(options: Options, device: torch.device) -> TrainingTask:
    """The task that `options` name: on every rank the same parameters, from the seed."""
    if options.model == "toy":
        data = ToyData(options.samples or 64)
        torch.manual_seed(options.seed)
        dropout = nn.Dropout(options.dropout)
        model = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), dropout, nn.Linear(10, 5)).to(device)
        if options.sharded:
            shard(model, [model[0], model[3]])
        optimizer = torch.optim.SGD(model.parameters(), options.lr, momentum=0.9)
        return TrainingTask(model, optimizer, data)
    corpus = rank0_first(wikitext2)  # the others find the ids that it has kept
    data = Windows(corpus.train, options.length or 32, options.samples)
    config = TransformerConfig(
        len(corpus.vocab), **SIZES, dropout=options.dropout, max_length=data.length
    )
    model = TransformerLM(config).to(device)
    initialise(model, options.seed)
    if options.sharded:
        shard(model, model.layers.values())
    return TrainingTask(model, torch.optim.AdamW(model.parameters(), options.lr), data)


def shard(model: nn.Module, layers: Iterable[nn.Module]) -> None:
    """Divide the parameters over all ranks, layer by layer (FSDP2); a rank alone keeps them."""
    ranks = rank_and_world()[1]
    if ranks == 1:
        return
    from torch.distributed.device_mesh import init_device_mesh  # slow to import
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(next(model.parameters()).device.type, (ranks,))
    for module in (*layers, model):
        fully_shard(module, mesh=mesh)


class ToyData(NumberedSamples):
    """Sample n: its number, 10 normal inputs, and 5 targets, the products of two inputs each."""

    def __init__(self, samples: int):
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[int, Tensor, Tensor]:
        generator = torch.Generator().manual_seed(zlib.crc32(f"toy {index}".encode()))
        inputs = torch.randn(10, generator=generator)
        return index, inputs, inputs[:5] * inputs[5:]


class Windows(NumberedSamples):
    """Sample n: its number, `length` tokens of the text from token n * length on, and the next.

    samples: how many; all that are whole if None. Raises ValueError where there are fewer.
    """

    def __init__(self, ids: Tensor, length: int, samples: int | None = None):
        whole = (len(ids) - 1) // length
        if whole < (samples or 1):
            raise ValueError(
                f"a text of {len(ids)} tokens has {whole} samples of {length}, not {samples or 1}; "
                "use fewer or shorter ones: --samples, --length"
            )
        self.ids, self.length, self.samples = ids, length, samples or whole

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, index: int) -> tuple[int, Tensor, Tensor]:
        window = self.ids[index * self.length : (index + 1) * self.length + 1]
        return index, window[:-1], window[1:]
