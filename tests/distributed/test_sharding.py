"""On two real ranks: who am I, also in spawned workers, and the audit over both."""

import os

import pytest
from torch.utils.data import DataLoader

from rankbook.data import Reader, ShardedLines, collate_with_reader, gather_audit, samples_by_reader
from tests.distributed.launch import run_ranks


def audit_of_lines(path: str, context: str | None) -> dict:
    """One rank: two epochs of a loader whose two workers stay, and the audit over all ranks."""
    os.environ |= {"RANK": "7", "WORLD_SIZE": "9"}  # of something else: the process group counts
    lines = ShardedLines(path, shuffle=True)
    options = {"num_workers": 2, "persistent_workers": True} if context else {}
    loader = DataLoader(
        lines,
        batch_size=4,
        collate_fn=collate_with_reader,
        multiprocessing_context=context,
        **options,
    )
    orders, texts = [], []
    for epoch in range(2):
        lines.set_epoch(epoch)
        mine = {
            name: [int(line) for line in share]
            for name, share in samples_by_reader(loader).items()
        }  # fmt: skip
        audit = gather_audit(mine, 100)
        orders.append(audit.by_reader)
        texts.append(str(audit))
    alone = gather_audit([Reader.here().rank], 2)
    with pytest.raises(ValueError, match="several ranks call a reader 'me'; names must differ"):
        gather_audit({"me": []}, 2)
    return {"orders": orders, "texts": texts, "alone": alone.by_reader}


# spawned workers know nothing of the rank's process group: the dataset brings them the rank
@pytest.mark.parametrize(("context", "readers"), [(None, 2), ("fork", 4), ("spawn", 4)])
def test_two_ranks_read_every_line_once(tmp_path, context, readers):
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{i}\n" for i in range(100)))
    first, second = run_ranks(audit_of_lines, tmp_path, 2, str(path), context)
    assert first == second, "the same audit on both ranks"
    assert first["texts"] == ["100 samples: 100 once, 0 twice, 0 never"] * 2
    assert first["orders"][0] != first["orders"][1]
    assert len(first["orders"][0]) == readers
    assert first["alone"] == {"rank 0": [0], "rank 1": [1]}
