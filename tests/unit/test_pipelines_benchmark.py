"""The benchmark of pipelines: its command line, its arithmetic, and its GPU part on a small model.

What the GPU part measures needs a GPU; that its steps are timed as said does not.
"""

import torch

from benchmarks import pipelines_gpu
from rankbook.models import TransformerConfig, TransformerLM, preset
from rankbook.speed import Machine


def test_operations_count_every_weight():
    config = preset("original", pipelines_gpu.VOCABULARY)
    with torch.device("meta"):
        model = TransformerLM(config)
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and "embed" not in name]
    weights = sum(p.numel() for p in matrices)
    # a token and attention: q times keys, weights times values, each d_model wide, half of 512
    attention = 8 * 2 * 4096 * 256
    assert pipelines_gpu.operations(config, 512) == 6 * (weights + attention)


def test_shares_are_of_the_measured_product_and_of_the_makers_peak(monkeypatch):
    limits = Machine("NVIDIA H200", {"float32": 5e13, "bf16": 8e14}, 4e12, 1e-5, 989e12)
    monkeypatch.setattr(pipelines_gpu, "measure_machine", lambda device: limits)
    found = pipelines_gpu.shares(4e14, torch.device("cpu"))
    assert found == {
        "of the measured product": "50% of 800",
        "of the maker's peak": "40% of 989 TFLOP/s",
    }
    asked = pipelines_gpu.shares(4e14, torch.device("cpu"), peak=800)
    assert asked["of the maker's peak"] == "50% of 800 TFLOP/s"


def test_steps_are_timed_in_turn():
    config = TransformerConfig(50, d_model=16, d_hidden=16, heads=2, layers=2, max_length=8)
    variants = [("float32", False), ("bf16", False)]  # compiling takes half a minute here
    with pipelines_gpu.process_group("gloo"):
        made = pipelines_gpu.make(config, torch.device("cpu"), microbatches=2)
        seconds = pipelines_gpu.time_steps(*made, (4, 8), variants, repeats=3)
    assert {variant: len(times) for variant, times in seconds.items()} == dict.fromkeys(variants, 3)
    found = pipelines_gpu.row(config, (4, 8), variants[1], [0.2, 0.1, 0.4])
    assert found["median"] == 200 and found["tokens/s"] == 160
    assert (found["numbers"], found["torch.compile"]) == ("bf16", "no")
