"""Audits: how often was each sample read, over all ranks and workers?"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from rankbook.core.agreement import gather
from rankbook.data.sharding import Reader


@dataclass(frozen=True)
class SampleAudit:
    """How often each of some samples was read; made by `audit_samples`.

    by_reader: what each reader read, in its order. times: each sample of the set to how often it
    was read, in the set's order. others: what was read and is not in the set.
    """

    by_reader: dict[str, list]
    times: dict[Hashable, int]
    others: list

    @property
    def total(self) -> int:
        """Samples in the set."""
        return len(self.times)

    @property
    def never(self) -> int:
        """How many samples nobody read."""
        return len(self.which(0))

    @property
    def once(self) -> int:
        """How many samples were read once."""
        return len(self.which(1))

    @property
    def twice(self) -> int:
        """How many samples were read twice."""
        return len(self.which(2))

    @property
    def more(self) -> int:
        """How many samples were read three times or more."""
        return self.total - self.never - self.once - self.twice

    @property
    def extra(self) -> int:
        """How many times something was read that is not in the set."""
        return len(self.others)

    @property
    def exactly_once(self) -> bool:
        """Whether every sample was read once, and nothing else."""
        return self.once == self.total and not self.others

    def which(self, times: int) -> list:
        """The samples that were read exactly `times` times, in the set's order."""
        return [sample for sample, found in self.times.items() if found == times]

    def __str__(self) -> str:
        more = f", {self.more} more often" if self.more else ""
        extra = f"; and {self.extra} that are not in the set" if self.extra else ""
        counts = f"{self.once} once, {self.twice} twice{more}, {self.never} never"
        return f"{self.total} samples: {counts}{extra}"


def audit_samples(
    by_reader: Mapping[str, Iterable] | Iterable[Iterable], total: int | Iterable
) -> SampleAudit:
    """Count how often each sample was read.

    by_reader: what each reader read, by name, or in the order of the ranks. total: the samples of
    the set, or n for 0 to n - 1. Raises ValueError if two samples of the set are equal, and
    TypeError for samples that cannot be compared by value, such as dicts and tensors.
    """
    if not isinstance(by_reader, Mapping):
        by_reader = {f"rank {rank}": samples for rank, samples in enumerate(by_reader)}
    read_by_name: dict[str, list] = {str(name): list(read) for name, read in by_reader.items()}
    samples = list(range(total) if isinstance(total, int) else total)
    if len(set(samples)) < len(samples):
        raise ValueError("some samples of the set are equal; number them to tell them apart")
    read = [sample for of_one in read_by_name.values() for sample in of_one]
    for sample in read:
        if not isinstance(sample, (int, float, str, bytes, tuple)):
            kind = type(sample).__name__
            raise TypeError(f"samples have to be numbers or text, not {kind}; convert them")
    counts = Counter(read)
    times: dict[Hashable, int] = {sample: counts[sample] for sample in samples}
    return SampleAudit(read_by_name, times, [sample for sample in read if sample not in times])


def gather_audit(mine: Mapping[str, Iterable] | Iterable, total: int | Iterable) -> SampleAudit:
    """The audit over all ranks, on all ranks: every one of them has to call it.

    mine: the samples of this rank, or of each of its readers by name, as `samples_by_reader`
    returns them. total: as for `audit_samples`. Without ``torch.distributed``, of this process
    alone. Raises ValueError on all ranks if two of them call a reader the same.
    """
    if not isinstance(mine, Mapping):
        mine = {f"rank {Reader.here().rank}": mine}
    mine = {name: list(samples) for name, samples in mine.items()}
    ranks = gather(mine)
    names = Counter(name for of_rank in ranks for name in of_rank)
    if shared := [name for name, ranks_with_it in names.items() if ranks_with_it > 1]:
        raise ValueError(
            f"gather_audit: several ranks call a reader {shared[0]!r}; names must differ"
        )
    return audit_samples({name: read for of_rank in ranks for name, read in of_rank.items()}, total)


def collate_with_reader(batch: list) -> tuple[Reader, list]:
    """A ``collate_fn`` that leaves the batch as it is, and says which reader made it."""
    return Reader.here(), batch


def samples_by_reader(
    loader: Iterable[tuple[Reader, list]], key: Callable | None = None
) -> dict[str, list]:
    """Read a loader to its end; return what each reader gave, by name.

    loader: with ``collate_fn=collate_with_reader``. key: what to keep of a sample, as in
    ``key=lambda sample: sample["id"]``. Readers that gave nothing are left out.
    """
    here = Reader.here()  # a spawned worker does not know its rank: it is this one
    by_reader: dict[Reader, list] = {}
    for reader, batch in loader:
        reader = replace(reader, rank=here.rank, world_size=here.world_size)
        by_reader.setdefault(reader, []).extend(batch if key is None else map(key, batch))
    return {str(r): by_reader[r] for r in sorted(by_reader, key=lambda r: r.index)}
