"""Hangs that are staged: the autopsy names the rank, what it does instead, and the line."""

import inspect
import json
import multiprocessing
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rankbook.__main__ import main
from rankbook.autopsy import Finding, Job, judge, read
from tests.autopsy import hangs
from tests.waiting import until

SIZE = 3
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["torch.distributed", "torch.utils.data", "tests.autopsy.hangs"])


@pytest.fixture(scope="module")
def hanging(tmp_path_factory) -> Iterator[Callable[[str], Path]]:
    """The folder of records of a staged hang; all of them hang from the first test on."""
    folders = {name: tmp_path_factory.mktemp(name) for name in hangs.ALL}
    work = [(n, r, SIZE, str(folder)) for n, folder in folders.items() for r in range(SIZE)]
    ranks = [CONTEXT.Process(target=hangs.run, args=each, daemon=True) for each in work]
    try:
        for rank in ranks:
            rank.start()
        yield lambda name: folders[name] / "records"
    finally:
        for rank in ranks:
            rank.kill()
            rank.join()


def found(
    records: Path, kind: str, text: str = "", alone: bool = False
) -> tuple[Job, list[Finding]]:
    """What the autopsy finds, as soon as there is a finding of that kind that says `text`.

    alone: and no other; on the way to where they hang, ranks may be late for other calls.
    """
    findings: list[Finding] = []

    def as_it_should() -> tuple[Job, list[Finding]] | None:
        try:
            findings[:] = judge(job := read(records))
        except ValueError:  # no record so far
            return None
        here = any(each.kind == kind and text in each.text for each in findings)
        return (job, [*findings]) if here and not (alone and len(findings) > 1) else None

    seen = until(as_it_should, lambda: f"no {kind} in {findings}")
    assert seen
    return seen


def line(function: object, text: str) -> str:
    """How a line of a staged program is quoted: ``hangs.py:40 in skips: dist...``."""
    source, first = inspect.getsourcelines(function)
    number = next(i for i, each in enumerate(source, first) if text in each)
    name = function.__name__
    return f"hangs.py:{number} in {name}: {source[number - first].strip()}"


def test_a_rank_skips_a_collective(hanging):
    _, [finding] = found(hanging("skips"), "missing", alone=True)
    assert finding.ranks == (1,)
    assert finding.text.startswith(
        "Rank 1 has not come to all_reduce(float32 [4]), call 2 of the default group, "
        "in which ranks 0 and 2 have waited for "
    )
    assert finding.lines == {
        0: line(hangs.skips, "torch.ones(4)"),
        1: line(hangs.skips, "time.sleep"),
        2: line(hangs.skips, "torch.ones(4)"),
    }


def test_two_orders(hanging):
    _, [finding] = found(hanging("two_orders"), "order", alone=True)
    assert finding.ranks == (1,)
    assert "Call 1 of the default group is not the same on all ranks" in finding.text
    assert "ranks 0 and 2 call all_reduce(float32 [4]); rank 1 calls broadcast(" in finding.text
    assert finding.lines[1] == line(hangs.two_orders, "broadcast(second")


def test_two_shapes(hanging):
    _, findings = found(hanging("two_shapes"), "shape")
    [finding] = [each for each in findings if each.kind == "shape"]
    assert finding.ranks == (2,)
    assert "ranks 0 and 1 call all_reduce(float32 [4]); rank 2 calls all_reduce(float32 [5])" in (
        finding.text
    )
    assert finding.lines[2] == line(hangs.two_shapes, "all_reduce")


def test_a_subgroup_that_only_some_ranks_make(hanging):
    _, [finding] = found(hanging("subgroup"), "group", alone=True)
    assert finding.ranks == (2,)
    assert finding.text.startswith(
        "Ranks 0 and 1 wait in new_group, which all ranks have to call, members of the group or "
        "not. Rank 2 is in all_reduce."
    )
    assert finding.lines[0] == line(hangs.subgroup, "new_group")
    assert finding.lines[2] == line(hangs.subgroup, "all_reduce")


def test_a_subgroup_that_only_its_members_make(hanging):
    """It works itself; torch numbers groups by their count, so it is a later one that hangs."""
    _, [finding] = found(hanging("subgroup_of_members"), "group", alone=True)
    assert "wait in new_group" in finding.text
    assert finding.text.endswith(
        "Groups begun so far: 2 on rank 2, 3 on ranks 0 and 1; one was made by some ranks only."
    )


def test_a_rank_in_a_data_loader(hanging):
    _, [finding] = found(hanging("loader"), "missing", alone=True)
    assert finding.ranks == (1,)
    assert "call 3 of the default group" in finding.text
    assert finding.text.endswith("Rank 1 is in the data loader.")
    assert finding.lines[1] == line(hangs.Slow.__getitem__, "time.sleep")


def test_a_rank_in_a_long_print(hanging):
    _, [finding] = found(hanging("prints"), "missing", alone=True)
    assert finding.ranks == (1,)
    assert finding.text.endswith("Rank 1 is blocked in a print: nobody reads its output.")
    assert finding.lines[1] == line(hangs.prints, "print(")


def test_a_rank_that_died_silently(hanging):
    job, [finding] = found(hanging("dies"), "died", alone=True)
    assert finding.ranks == (1,), "a victim is blamed"
    assert finding.text.startswith("Rank 1 died without a word")
    assert finding.lines[1] == line(hangs.dies, "time.sleep")
    assert job.ranks[0].ended != "died"


def test_a_send_without_a_recv(hanging):
    _, [finding] = found(hanging("sends"), "p2p", alone=True)
    assert finding.ranks == (2,)
    assert finding.text == (
        "Rank 0 waits in send to rank 2, which does not recv: it is in barrier."
    )
    assert finding.lines == {
        0: line(hangs.sends, "dist.send"),
        2: line(hangs.sends, "dist.barrier"),
    }


def test_a_hang_inside_the_backward_of_ddp(hanging, tmp_path, capsys):
    records, picture = hanging("backward"), tmp_path / "calls.svg"
    _, [finding] = found(records, "missing", "DDP's backward", alone=True)
    assert main(["autopsy", str(records), "--json", "--picture", str(picture)]) == 1
    assert finding.ranks == (1,)
    assert finding.text.startswith("Rank 1 has not come to a bucket of DDP's backward, all_reduce(")
    assert finding.lines[0] == line(hangs.backward, "loss.backward")
    assert finding.lines[1] == line(hangs.backward, "time.sleep")
    told = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in told["findings"]] == ["missing"]
    assert told["ranks"][1]["does"].startswith("is at hangs.py:")
    drawn = picture.read_text()
    assert drawn.count(">missing<") == 1 and "rank 2" in drawn
