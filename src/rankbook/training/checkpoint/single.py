"""Checkpoints in a file each, for one process, or for replicas: rank 0 writes for all."""

from pathlib import Path
from typing import BinaryIO

from rankbook.core.agreement import broadcast_from_rank0
from rankbook.core.atomic import write_atomic
from rankbook.training.checkpoint.errors import explain_oserror
from rankbook.training.checkpoint.fence import fenced, publish
from rankbook.training.checkpoint.plain import check_plain, load_plain, save_plain
from rankbook.training.checkpoint.store import Store, check_sum


class Checkpoints(Store):
    """The checkpoints of one run in a folder, each one plain torch file: ``torch.load`` reads it.

    All ranks hold the same, and rank 0 writes it; one process is a world of one.
    """

    ending = ".pt"

    def save(self, step: int, state: dict) -> None:
        """As for every `Store`; it is on the disk when this returns.

        state: tensors, numbers, strings, in dicts, lists and tuples.
        """
        broadcast_from_rank0(lambda: self._write(step, state))

    def read(self, path: Path) -> dict:
        return load_plain(path)

    def read_checked(self, path: Path) -> dict:
        check_sum(path, path)
        return self.read(path)

    def _write(self, step: int, state: dict) -> None:
        check_plain(state)

        def write(file: BinaryIO) -> str:
            return self.name(step, save_plain(state, file))

        saving = explain_oserror(f"step {step} was not saved in {self.folder}")
        with saving, fenced(self.gate, self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.remove_leftovers()
            path = write_atomic(self.gate / f"step-{step:08}", write)
            path = publish(path, self.folder)
        self.prune(step, path)
