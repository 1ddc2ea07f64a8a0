"""Rows in turns: the same samples, what is measured, what is skipped, and what fails alone."""

import json
import re
import sys

import pytest
import torch

from rankbook.models.classifier import Classifier
from rankbook.speed.compiling import OPTIONS
from rankbook.speed.ladder import run
from rankbook.speed.loop import Training
from rankbook.speed.measure import device_peak
from rankbook.speed.recipes import recipe
from rankbook.speed.reviews import synthetic
from rankbook.speed.sizes import size
from rankbook.speed.skipping import reason_to_skip

TINY = size(
    "cpu",
    vocab_size=200,
    d_model=32,
    d_hidden=64,
    layers=1,
    max_length=40,
    batch=5,
    samples=30,
    validation=10,
    test=10,
)
OOM = "CUDA out of memory. Tried to allocate 20.00 GiB."
NO_MEMORY = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory"
)


def here(name, **changes):
    return recipe(name, "cpu").replace(workers=0, **changes)


@pytest.fixture(scope="module")
def reviews():
    return {
        name: synthetic(count, TINY, seed) for seed, (name, count) in enumerate(TINY.splits.items())
    }


@pytest.fixture(scope="module")
def said():
    return []


@pytest.fixture(scope="module")
def rows(reviews, said):
    """One run that most tests read: steps of 20 samples, 2 turns."""
    recipes = [here("plain"), here("packed"), here("tf32"), here("4x batch")]
    splits = reviews
    rows = run(recipes, TINY, splits, steps=4, repeats=2, say=said.append)
    return {row["name"]: row for row in rows}


def test_all_rows_take_the_same_samples(rows):
    assert [row["samples"] for row in rows.values() if "samples" in row] == [20, 20, 20]
    assert rows["plain"]["tokens"] == rows["packed"]["tokens"] == rows["packed"]["computed"]
    assert rows["plain"]["steps"] == 4 and rows["4x batch"]["steps"] == 1


def test_a_row_says_what_was_measured(rows):
    row = rows["packed"]
    assert row["repeats"] == 2 and row["base"] == "bucketed"
    assert 0 < row["seconds"]["p10"] <= row["seconds"]["median"] <= row["seconds"]["p90"]
    assert row["samples_per_s"] == pytest.approx(20 / row["seconds"]["median"])
    assert row["tokens_per_s"] == pytest.approx(row["tokens"] / row["seconds"]["median"])
    assert row["flop_per_s"] == pytest.approx(row["flop"] / row["seconds"]["median"])
    assert row["peak_share"] == pytest.approx(row["flop_per_s"] / row["peak_flop_per_s"])
    assert row["compile_s"] is None and row["graphs"] == row["recompiles"] == 0
    assert row["weights"] == "random weights of seed 0"
    assert rows["plain"]["speed_up"] == 1.0
    assert row["speed_up"] == pytest.approx(row["samples_per_s"] / rows["plain"]["samples_per_s"])


def test_first_losses_are_kept(rows):
    assert rows["packed"]["losses"] == pytest.approx(rows["plain"]["losses"], abs=1e-5)
    assert len(rows["plain"]["losses"]) == 4


def test_memory_is_more_than_the_weights_and_moments(rows):
    parameters = sum(p.numel() for p in Classifier(TINY.model).parameters())
    peaks = [row["peak_bytes"] for row in rows.values() if "seconds" in row]
    if None in peaks:
        pytest.skip("this kernel does not let a process reset its peak")
    assert min(peaks) >= 12 * parameters


def test_a_row_that_cannot_run_says_why(rows):
    row = rows["tf32"]
    assert row["skipped"] == "TF32 is a number format of GPUs since Ampere; this is a CPU"
    assert "seconds" not in row and "error" not in row


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tf32", "TF32 is a number format of GPUs"),
        ("pinned", "pinned memory serves copies to a GPU"),
        ("CUDA graphs", "CUDA graphs need a GPU"),
        ("compile", "torch.compile needs a C\\+\\+ compiler"),
        ("max-autotune", "torch.compile needs a C\\+\\+ compiler"),
        ("lightning", "Lightning is not installed"),
    ],
)
def test_what_a_bare_cpu_lacks_is_said(name, words, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None)
    assert re.match(words, reason_to_skip(here(name), "cpu"))
    assert reason_to_skip(here("packed"), "cpu") is None


def test_a_compiler_is_looked_for_where_torch_looks(monkeypatch, tmp_path):
    own = tmp_path / "g++"
    own.touch(mode=0o755)
    monkeypatch.setattr("torch.__file__", "/usr/torch/__init__.py")  # ours may have a space
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "Python's headers" in reason_to_skip(here("compile"), "cpu")
    (tmp_path / "Python.h").touch()
    assert reason_to_skip(here("compile"), "cpu") is None
    monkeypatch.setenv("CXX", str(tmp_path / "nothing"))
    assert "C++ compiler" in reason_to_skip(here("compile"), "cpu")


def test_a_path_with_a_space_is_none_to_compile_in(monkeypatch, tmp_path):
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    monkeypatch.setenv("CXX", sys.executable)
    monkeypatch.setattr("torch.__file__", "/home/a reader/.venv/torch/__init__.py")
    said = reason_to_skip(here("compile"), "cpu")
    assert "path with a space" in said and said.endswith("/home/a reader/.venv/torch")
    assert reason_to_skip(here("packed"), "cpu") is None


def test_the_switch_is_named_where_the_base_is_in_the_run(reviews):
    recipes = [here("bucketed"), here("packed")]
    first, second = run(recipes, TINY, reviews["train"], steps=1, repeats=1)
    assert first["switch"] == {} and second["switch"] == {"batching": ["bucketed", "packed"]}


def test_every_row_is_held_against_one_peak(rows):
    """The best product of any format, not that of the row's own."""
    peaks = {row["peak_flop_per_s"] for row in rows.values() if "seconds" in row}
    assert peaks == {device_peak("cpu")}
    assert all(row["peak_share"] <= 1 for row in rows.values() if "seconds" in row)


def test_turns_are_of_the_same_batches(reviews, monkeypatch):
    seen = []
    step = Training.step
    monkeypatch.setattr(
        Training, "step", lambda self, b: (seen.append(b.samples.tolist()), step(self, b))[1]
    )
    run([here("bucketed")], TINY, reviews, steps=2, repeats=2)
    assert len(seen) == 6 and seen[:2] == seen[2:4] == seen[4:]


def test_speed_ups_are_ratios_within_a_turn(rows):
    first, row = rows["plain"], rows["packed"]
    ratios = sorted(a / b for a, b in zip(first["turns"], row["turns"], strict=True))
    assert row["times"]["p10"] == pytest.approx(ratios[0])
    assert row["times"]["p90"] == pytest.approx(ratios[1])
    assert first["times"]["median"] == 1


def test_groups_are_written_one_by_one_and_resumed(reviews):
    recipes = [here("plain"), here("seldom"), here("packed")]
    kept, said = [], []

    def keep(rows):
        kept.append(rows)

    rows = run(recipes, TINY, reviews, steps=1, repeats=1, together=1, keep=keep)
    assert [[row["name"] for row in rows] for rows in kept] == [
        ["plain"], ["plain", "seldom"], ["plain", "seldom", "packed"]
    ]  # fmt: skip
    assert all(row["speed_up"] > 0 for row in rows)
    again = run(
        recipes, TINY, reviews, steps=1, repeats=1, together=1, done=kept[1], say=said.append
    )
    assert again[:2] == rows[:2]  # as they were; the first runs beside the new one
    assert {line.split(":")[0] for line in said} == {"plain", "packed"}


def test_recipes_take_turns(said):
    passes = [line.split(":")[0] for line in said]
    assert passes[:3] == ["plain", "packed", "4x batch"]
    assert passes[3:6] == ["packed", "4x batch", "plain"]
    assert passes[6:9] == ["4x batch", "plain", "packed"]


def test_rows_can_be_written_as_json(rows):
    assert json.loads(json.dumps(rows)) == rows


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError(OOM), RuntimeError(NO_MEMORY), MemoryError()],
    ids=["GPU", "CPU", "Python"],
)
def test_out_of_memory_ends_one_row_only(reviews, monkeypatch, error):
    whole = Classifier.forward

    def small_device(self, ids, *rest):
        if ids.numel() > 5 * 40:
            raise error
        return whole(self, ids, *rest)

    monkeypatch.setattr(Classifier, "forward", small_device)
    recipes = [here("plain"), here("4x batch", batching="longest of all"), here("seldom")]
    plain, large, seldom = run(recipes, TINY, reviews["train"], repeats=1)
    assert large["error"] == (
        "4x batch: out of memory with 20 samples a step; use a smaller batch, more microbatches, "
        "packing, or checkpointing"
    )
    assert "seconds" in plain and "seconds" in seldom
    small = here("accumulation", batching="longest of all")  # the same batch in parts goes through
    assert "seconds" in run([small], TINY, reviews["train"], repeats=1)[0]


def test_out_of_memory_in_a_later_round(reviews, monkeypatch):
    whole, calls = Classifier.forward, []

    def tiring(self, *inputs):
        calls.append(0)
        if len(calls) == 4:
            raise torch.OutOfMemoryError(OOM)
        return whole(self, *inputs)

    monkeypatch.setattr(Classifier, "forward", tiring)
    failed, fine = run([here("plain"), here("seldom")], TINY, reviews["train"], steps=1, repeats=2)
    assert "out of memory" in fine.get("error", "") or "out of memory" in failed.get("error", "")
    assert ("seconds" in failed) != ("seconds" in fine)


def test_what_a_compiler_says_ends_one_row_only(reviews, monkeypatch):
    def broken(graph, inputs):
        raise RuntimeError("no such instruction\nand so on")

    torch._dynamo.reset()
    monkeypatch.setitem(OPTIONS, "default", {"backend": broken})
    monkeypatch.setitem(OPTIONS, "max-autotune", {"backend": "eager"})
    monkeypatch.setattr("rankbook.speed.ladder_row.reason_to_skip", lambda *_: None)
    recipes = [here(name, batching="longest of all") for name in ("compile", "max-autotune")]
    failed, fine = run(recipes, TINY, reviews["train"], repeats=1)
    assert failed["error"].startswith("compile: BackendCompilerFailed")
    assert "\n" not in failed["error"]
    assert (fine["graphs"], fine["recompiles"]) == (1, 0)


def test_whatever_a_row_meets_the_others_go_on(reviews, monkeypatch):
    whole = Classifier.forward

    def mistaken(self, ids, *rest):
        if self.attention == "sdpa":
            raise TypeError("not a tensor\nand so on")
        return whole(self, ids, *rest)

    monkeypatch.setattr(Classifier, "forward", mistaken)
    failed, fine = run([here("sdpa"), here("plain")], TINY, reviews, steps=1, repeats=1)
    assert failed["error"] == "sdpa: TypeError: not a tensor" and "seconds" in fine


def test_more_steps_than_samples_are_refused(reviews):
    with pytest.raises(ValueError, match="there are 30 reviews, not 35"):
        run([here("plain")], TINY, reviews["train"], steps=7)
