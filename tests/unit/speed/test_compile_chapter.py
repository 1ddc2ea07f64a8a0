"""What page 34 claims: graphs that lengths cost, warm-ups that save none, Adams that are equal."""

import multiprocessing
import resource
import time

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from rankbook.speed import (
    CountingBackend,
    account,
    graph_counts,
    reason_to_skip,
    recipe,
    watching,
)


def block(x):
    return torch.tanh(x) + 1


def call(lengths, **options) -> graph_counts.Watched:
    with watching() as watched:
        compiled = torch.compile(block, backend="eager", **options)
        for length in lengths:
            compiled(torch.zeros(length, 4))
        return watched


WAYS = [({"dynamic": False}, 8), ({}, 2), ({"dynamic": True}, 1), ({"disable": True}, 0)]


@pytest.mark.parametrize(("options", "made"), WAYS)
def test_twelve_lengths_make_so_many_graphs(options, made):
    watched = call(range(100, 112), **options)
    assert watched.graphs == made
    assert bool(watched.warnings) == (made == 8)


def test_after_eight_graphs_it_gives_up_and_says_so_once():
    (warning,) = call(range(100, 120), dynamic=False).warnings
    assert "torch._dynamo hit config.recompile_limit (8)" in warning
    assert "expected 107, actual 108" in warning


def test_watching_leaves_the_logger_as_it_was():
    import logging

    logger = logging.getLogger("torch._dynamo")
    before = logger.handlers, logger.level, logger.propagate
    with pytest.raises(ZeroDivisionError), watching():
        raise ZeroDivisionError
    assert (logger.handlers, logger.level, logger.propagate) == before


def test_a_stance_makes_recompiling_an_error():
    torch.compiler.reset()
    compiled = torch.compile(block, backend="eager", dynamic=False)
    compiled(torch.zeros(5, 4))
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.zeros(5, 4))
        with pytest.raises(RuntimeError, match="recompile"):
            compiled(torch.zeros(6, 4))


def test_rounded_lengths_are_few_graphs_and_a_marked_dimension_is_one():
    assert call([-(-n // 128) * 128 for n in range(100, 500, 25)], dynamic=False).graphs == 4
    with watching() as watched:
        compiled = torch.compile(block, backend="eager")
        for length in range(100, 110):
            x = torch.zeros(length, 4)
            torch._dynamo.mark_dynamic(x, 0)
            compiled(x)
        assert watched.graphs == 1


class Counting(nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def forward(self, x):
        self.calls = self.calls + 1
        return x / self.calls


@pytest.mark.parametrize(("zero", "made"), [(0, 8), (torch.zeros(()), 1)])
def test_a_counter_of_a_module_is_a_graph_a_call_unless_it_is_a_tensor(zero, made):
    with watching() as watched:
        counting = torch.compile(Counting(zero), backend="eager")
        for _ in range(12):
            counting(torch.ones(4))
        assert watched.graphs == made


@pytest.fixture
def model():
    torch.compiler.reset()
    backend = CountingBackend()
    layers = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2))
    return torch.compile(layers, backend=backend), backend


def one_step(model, *, autocast: bool = True, cache: bool = True):
    inputs, labels = torch.ones(4, 8), torch.arange(4) % 2
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast, cache_enabled=cache):
        loss = cross_entropy(model(inputs).float(), labels)
    loss.backward()


def test_a_forward_pass_in_another_format_warms_up_nothing(model):
    compiled, backend = model
    compiled(torch.ones(4, 8))
    assert backend.news() == {"forward": 1}
    one_step(compiled)
    assert backend.news() == {"forward": 1, "backward": 1}
    one_step(compiled)
    assert backend.news() == {}


def test_the_cache_of_autocast_is_guarded(model):
    compiled, backend = model
    one_step(compiled)
    backend.news()
    one_step(compiled, cache=False)  # as Lightning's precision plugin has it
    assert backend.news() == {"forward": 1, "backward": 1}


def test_only_a_short_fit_warms_up_a_fit(model):
    lightning = pytest.importorskip("lightning")
    from torch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(torch.randn(8, 8), torch.arange(8) % 2), batch_size=4)

    class Module(lightning.LightningModule):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def training_step(self, batch, _):
            return cross_entropy(self.model(batch[0]).float(), batch[1])

        validation_step = training_step

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    def fit(model):
        lightning.Trainer(
            max_epochs=1, accelerator="cpu", precision="bf16-mixed", logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        ).fit(Module(model), loader, loader)  # fmt: skip

    compiled, backend = model
    one_step(compiled)
    with torch.no_grad():
        compiled.eval()(torch.ones(4, 8))
    compiled.train()
    backend.news()
    fit(compiled)
    assert backend.news() == {"inference": 1, "forward": 1, "backward": 1}
    fit(compiled)
    assert backend.news() == {}


def adam(**how):
    parameters = [nn.Parameter(torch.ones(3)) for _ in range(5)]
    made = torch.optim.Adam(parameters, lr=1e-3, **how)
    for p in parameters:
        p.grad = torch.ones_like(p)
    made.step()
    return made


def test_fused_adam_is_one_launch_and_a_loop_grows_with_the_parameters():
    loop, foreach, fused = (
        account(adam(**how).step).calls
        for how in ({"foreach": False}, {"foreach": True}, {"fused": True})
    )
    assert fused < foreach < loop
    assert loop > 5 * 5


@pytest.mark.parametrize(("step", "right"), [(0, True), (10**6, False)])
def test_adam_told_of_a_late_step_leaves_the_bias_correction_out(step, right):
    weight = nn.Parameter(torch.ones(1))
    late = torch.optim.Adam([weight], lr=1e-3)
    late.state[weight] = {"step": torch.tensor(float(step)), "exp_avg": torch.zeros(1),
                          "exp_avg_sq": torch.zeros(1)}  # fmt: skip
    weight.grad = torch.ones(1)
    late.step()
    full = 1e-3 if right else 1e-3 * 0.1 / 0.001**0.5
    assert 1 - weight.item() == pytest.approx(full, rel=1e-3)


def test_a_fork_copies_pages_once():
    memory = torch.ones(2**22)  # 16 MiB

    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        memory.add_(1)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    faults()
    usual = faults()
    sleeper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,))
    sleeper.start()
    try:
        first, second = faults(), faults()
        assert first > usual
        assert first > second
    finally:
        sleeper.kill()
        sleeper.join()


def test_a_second_process_finds_what_the_first_has_compiled():
    """Forgetting all but the cache on disk stands for a new process; another shape isn't there."""
    if lacking := reason_to_skip(recipe("compile", "cpu")):
        pytest.skip(lacking)
    from torch._dynamo.utils import counters
    from torch._inductor import config
    from torch._inductor.utils import fresh_cache

    found = []
    with fresh_cache(), config.patch({"cpp.vec_isa_ok": True}):
        for shape in (8, 8, 9):
            with watching():
                before = counters["inductor"]["fxgraph_cache_hit"]
                torch.compile(block, dynamic=False)(torch.ones(shape))
            found.append(counters["inductor"]["fxgraph_cache_hit"] - before)
    assert found == [0, 1, 0]
