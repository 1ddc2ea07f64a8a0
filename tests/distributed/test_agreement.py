"""Agreement between ranks: whatever one of them raises, all of them raise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch.multiprocessing import ProcessExitedException

from tests.distributed import agreement_ranks as ranks
from tests.distributed.launch import run_ranks

ROOT = Path(__file__).resolve().parents[2]


def test_what_rank_0_raises_reaches_all_whatever_it_is(tmp_path):
    by_rank = run_ranks(ranks.broadcasts, tmp_path, 3)
    for rank, found in enumerate(by_rank):
        assert found["made"] == "by rank 0"
        for name in ("value", "runtime", "key", "file", "import", "lines"):
            error = ranks.ERRORS[name]()
            assert found[name] == f"{type(error).__name__}: {error}", name
        own = rank == 0  # the others cannot make these classes: kind and text arrive
        kinds = {"two words": "TwoWordsError: two words", "local": "LocalError: of rank 0 alone"}
        for name, expected in kinds.items():
            assert found[name] == (expected if own else f"RuntimeError: {expected}")
        assert "pickle" in found["unreadable"]
    assert [found.get("group") for found in by_rank] == [None, "by rank 1", "by rank 1"]
    assert [found.get("gathered") for found in by_rank] == [None, "[1, 2]", "[1, 2]"]


def test_where_some_raise_all_raise_the_same_sentence(tmp_path):
    by_rank = run_ranks(ranks.agreements, tmp_path, 3)
    assert by_rank[0] == by_rank[1] == by_rank[2]
    at = " (rank 1, 2)"
    assert {name: told for name, told in by_rank[0].items() if name != "unreadable"} == {
        "fine": "fine",
        "value": f"ValueError: wrong{at}",
        "runtime": f"RuntimeError: stranded{at}",
        "key": f"RuntimeError: KeyError: 'name'{at}",
        "file": f"FileNotFoundError: [Errno 2] no such file: 'x'{at}",
        "import": f"ImportError: no torchdata{at}",
        "two words": f"RuntimeError: TwoWordsError: two words{at}",
        "local": f"RuntimeError: LocalError: of rank 0 alone{at}",
        "lines": f"OSError: first line{at}",
        "all": "ValueError: wrong",
        "gather": "['rank 0', 'rank 1', 'rank 2']",
    }
    assert by_rank[0]["unreadable"].endswith("(rank 1)")  # and nobody is left waiting


def test_rank_0_goes_first(tmp_path):
    by_rank = run_ranks(ranks.one_after_the_other, tmp_path, 3, str(tmp_path))
    expected = {
        "made": "by rank 0",
        "first": "RuntimeError: no download",
        "other": "OSError: no folder (rank 1)",
    }
    assert by_rank == [expected] * 3


def test_an_interrupted_rank_ends_at_once_and_the_others_notice(tmp_path):
    with pytest.raises(ProcessExitedException, match="exit code 3"):
        run_ranks(ranks.leave_without_a_word, tmp_path, 2)


ALONE = """
import sys
sys.modules["numpy"] = None  # as if it were not installed
import torch.distributed as dist
from tests.distributed.agreement_ranks import without_numpy
dist.init_process_group("gloo", init_method="file://{store}", rank={rank}, world_size=2)
print(without_numpy())
dist.barrier()
dist.destroy_process_group()
"""


def test_nothing_of_it_needs_numpy(tmp_path):
    """A machine with torch may have none; torch's own gathering of objects needs it."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}/src{os.pathsep}{ROOT}"}
    environment |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", ALONE.format(store=tmp_path / "store", rank=rank)],
            env=environment,
            **pipes,
        )
        for rank in range(2)
    ]
    try:
        ended = [rank.communicate(timeout=900) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    expected = [
        [{"rank": 0, "more": "x"}, {"rank": 1, "more": "x" * 10}],
        ("by", 0),
        "ValueError: wrong (rank 1)",
    ]
    for said, trouble in ended:
        assert said.strip() == f"{expected}", trouble
