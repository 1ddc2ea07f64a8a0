"""The diff of two files."""

import plots
from rankbook.programs.retrofit import ddp_after, ddp_before


def test_what_was_taken_out_and_put_in():
    diff = plots.module_diff(ddp_before, ddp_after)
    assert diff.lines[0] == "--- ddp_before.py" and diff.lines[1] == "+++ ddp_after.py"
    assert "+    notice = PreemptionHandler()" in diff.lines
    assert "-    sampler = DistributedSampler(data)" in diff.lines
    out, put_in = diff.counts
    assert 10 < out < put_in
    assert diff._repr_markdown_().startswith("```diff\n--- ddp_before.py")


def test_the_same_file_has_no_diff():
    assert plots.module_diff(ddp_after, ddp_after).counts == (0, 0)
