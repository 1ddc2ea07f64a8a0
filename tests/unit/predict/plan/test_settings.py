"""A plan in the words of each program: parsed by the programs themselves where they are here."""

import json
import re
import shlex
import types
from dataclasses import replace

import pytest
import torch

from rankbook.models import preset
from rankbook.predict.memory import Setup, fullest
from rankbook.predict.plan import Machines, Plan, find_card, shape_from_params, step_time
from rankbook.predict.plan.settings import EVERY, of_book, of_deepspeed, of_megatron, of_torchtitan
from rankbook.predict.plan.settings.book import HEADS, LAYERS, MOST, TEXT
from rankbook.programs.train_lm.options import parser, read
from rankbook.training import steps_of_epoch

SHAPE = shape_from_params(7.5e9)
H200 = find_card("h200")
SETUPS = {
    "fsdp": Setup(dp=64, zero=3, microbatches=4, precision="fsdp-bf16"),
    "hsdp": Setup(dp=64, zero=3, shard=8, sequences=2, precision="fsdp-bf16"),
    "tp": Setup(dp=8, tp=8, zero=1, microbatches=8, checkpointing="selective"),
    "mesh": Setup(2, 4, 8, zero=1, microbatches=8, checkpointing="layers"),
    "all": Setup(2, 4, 8, zero=3, shard=2, microbatches=8, precision="fsdp-bf16"),
    "few": Setup(4, 2, 8, microbatches=2),
    "alone": Setup(),
}


def planned(name: str) -> Plan:
    setup = SETUPS[name]
    machines = Machines(H200, setup.ranks)
    stage, memory = fullest(SHAPE, setup)
    return Plan(SHAPE, machines, setup, stage, memory, step_time(SHAPE, setup, machines))


def words_of(command: str) -> list[str]:
    return shlex.split(command.replace("\\\n", " "))


@pytest.mark.parametrize("name", SETUPS)
def test_the_books_program_reads_its_line(name):
    plan = planned(name)
    words = words_of(of_book(plan).text)
    start = words.index("rankbook.programs.train_lm")
    options = read(words[start + 1 :], plan.setup.ranks)
    assert options.layout == plan.setup.layout and options.window == SHAPE.sequence
    assert options.batch * SHAPE.sequence == plan.batch_tokens
    assert options.microbatches == plan.setup.microbatches and options.bf16
    ranks = int(words[words.index("--nproc-per-node") + 1])
    nodes = int(words[words.index("--nnodes") + 1]) if "--nnodes" in words else 1
    assert ranks * nodes == plan.setup.ranks


def test_what_the_books_program_cannot_say():
    assert preset("original", 1).layers == preset("tiny", 1).layers == LAYERS
    sixteen = replace(planned("mesh"), setup=Setup(16, 4, 1, microbatches=16))
    assert of_book(sixteen).unsaid[0] == (
        "it refuses this line: its models have 8 layers, too few for 16 stages"
    )
    words = words_of(of_book(sixteen).text)
    assert parser().parse_args(words[words.index("rankbook.programs.train_lm") + 1 :]).bf16
    assert any("no ZeRO 1" in said for said in of_book(planned("tp")).unsaid)
    assert any("no activation checkpointing" in said for said in of_book(planned("tp")).unsaid)
    for name in ("fsdp", "tp"):
        (autocast,) = (said for said in of_book(planned(name)).unsaid if "autocast" in said)
        assert (f"{planned(name).memory.total / 1e9:.3g} GB planned" in autocast) == (
            name == "fsdp"
        )


def test_the_books_program_refuses_what_is_said_to_be_refused():
    assert preset("original", 1).heads == HEADS
    for setup in (Setup(tp=32), Setup(tp=3), Setup(16, 2, 1, microbatches=16), Setup(tp=16)):
        settings = of_book(replace(planned("alone"), setup=setup))
        words = words_of(settings.text)
        words = words[words.index("rankbook.programs.train_lm") + 1 :]
        if any(said.startswith("it refuses") for said in settings.unsaid):
            with pytest.raises(ValueError, match=r"choose a divisor|cannot share 8 layers|window"):
                read(words, setup.ranks)
        else:
            read(words, setup.ranks)


@pytest.mark.parametrize(("microbatches", "tp"), [(1, 1), (16, 1), (64, 8), (1500, 4), (9000, 8)])
def test_its_text_is_long_enough(microbatches, tp):
    """4M tokens a step are more than WikiText-2 has."""
    plan = replace(planned("alone"), setup=Setup(dp=64, tp=tp, microbatches=microbatches))
    settings = of_book(plan)
    words = words_of(settings.text)
    rows, window = (int(words[words.index(name) + 1]) for name in ("--batch", "--window"))
    assert rows == 64 * microbatches and window % tp == 0 and window <= SHAPE.sequence
    if rows > MOST:
        assert settings.unsaid[0].startswith("it refuses this line: its text is too short")
        return
    assert steps_of_epoch(torch.empty((rows, TEXT // rows), device="meta"), window) >= 1
    told = f"the window is {window:,}" in " ".join(settings.unsaid)
    assert told == (window < SHAPE.sequence)


@pytest.mark.parametrize("name", SETUPS)
def test_deepspeeds_own_check_takes_its_json(name, monkeypatch):
    config = pytest.importorskip("deepspeed.runtime.config")
    setup = SETUPS[name]
    monkeypatch.setattr(config.dist, "get_rank", lambda: 0)
    replicas = types.SimpleNamespace(get_data_parallel_world_size=lambda: setup.dp)
    text = of_deepspeed(planned(name)).text
    read_by_it = config.DeepSpeedConfig(json.loads(text), mpu=replicas)
    assert read_by_it.zero_optimization_stage == setup.zero
    assert read_by_it.gradient_accumulation_steps == setup.microbatches
    wrong = json.loads(text) | {"train_batch_size": 12345}
    with pytest.raises((AssertionError, config.DeepSpeedConfigError)):
        config.DeepSpeedConfig(wrong, mpu=replicas)


@pytest.mark.parametrize("name", SETUPS)
def test_torchtitans_lines_are_its_fields(name):
    """Names are those of torchtitan 0.3.0's configs.py; it is not installed here."""
    config = types.SimpleNamespace(training=types.SimpleNamespace(), parallelism=None)
    config.parallelism = types.SimpleNamespace()
    lines = of_torchtitan(planned(name)).text.splitlines()
    exec("\n".join(line for line in lines if line.startswith("config.") and "AC." not in line))
    setup, mesh = SETUPS[name], config.parallelism
    made = mesh.data_parallel_replicate_degree * mesh.data_parallel_shard_degree
    assert made == setup.dp and mesh.tensor_parallel_degree == setup.tp
    assert config.training.global_batch_size % (setup.dp * config.training.local_batch_size) == 0
    if setup.zero == 3:
        assert mesh.data_parallel_shard_degree == setup.sharing
    if setup.pp > 1:  # stages of as many layers as the plan's: the ends count for nothing
        assert mesh.pipeline_parallel_first_stage_less_layers == 0
        assert mesh.pipeline_parallel_last_stage_less_layers == 0
        assert config.training.local_batch_size == setup.sequences * setup.microbatches
        assert mesh.pipeline_parallel_schedule == ("GPipe" if name == "few" else "1F1B")


@pytest.mark.parametrize("name", SETUPS)
def test_megatrons_options(name):
    words = words_of(of_megatron(planned(name)).text)
    setup = SETUPS[name]
    options = dict(re.findall(r"--([a-z-]+) (\S+)", " ".join(words)))
    assert options["tensor-model-parallel-size"] == str(setup.tp)
    assert options["pipeline-model-parallel-size"] == str(setup.pp)
    rounds = setup.dp * setup.microbatches * setup.sequences
    assert options["global-batch-size"] == str(rounds)
    assert ("--use-distributed-optimizer" in words) == (setup.zero > 0)
    assert ("--use-megatron-fsdp" in words) == (setup.zero == 3)
    assert ("--sequence-parallel" in words) == (setup.tp > 1)
    assert options["num-layers"] == str(SHAPE.layers) and "--swiglu" in words


def test_megatron_is_told_of_unequal_stages():
    """It asserts that they are equal, unless it is told how many layers the last one has."""
    shape = replace(SHAPE, layers=126)
    for pp, last in ((2, None), (4, 30), (16, 6), (64, 0)):
        setup = Setup(pp, 1, 8, microbatches=64)
        settings = of_megatron(replace(planned("mesh"), shape=shape, setup=setup))
        words = words_of(settings.text)
        if last:
            said = int(words[words.index("--decoder-last-pipeline-num-layers") + 1])
            assert said == last and (126 - last) % (pp - 1) == 0
            assert max(last, (126 - last) // (pp - 1)) == -(-126 // pp)  # of the fullest stage
        else:
            assert "--decoder-last-pipeline-num-layers" not in words
        assert (last == 0) == any(said.startswith("it refuses") for said in settings.unsaid)
        assert any("CUDA_DEVICE_MAX_CONNECTIONS=1" in said for said in settings.unsaid)


def test_what_megatron_holds_itself():
    """Its ranks hold less than torch's, whose pipeline has buffers for all microbatches."""
    plan = planned("mesh")
    setup = Setup(2, 4, 8, zero=1, microbatches=256)
    stage, memory = fullest(SHAPE, setup)
    plan = replace(plan, setup=setup, stage=stage, memory=memory)
    own = fullest(SHAPE, replace(setup, regather=True, exchanged_ahead=False))[1].total / 1e9
    assert own < 0.95 * memory.total / 1e9
    assert f"its ranks hold {own:.0f} GB, not" in " ".join(of_megatron(plan).unsaid)
    assert "its ranks hold" not in " ".join(of_megatron(planned("fsdp")).unsaid)
    (selective,) = (s for s in of_megatron(planned("tp")).unsaid if "its selective" in s)
    how = replace(SETUPS["tp"], regather=True, exchanged_ahead=False, checkpointing="attention")
    assert f"its ranks hold {fullest(SHAPE, how)[1].total / 1e9:.0f} GB" in selective


@pytest.mark.parametrize("name", SETUPS)
def test_briefly_it_is_the_same(name):
    plan = planned(name)
    full, brief = ({n: getattr(EVERY[n](plan), kind) for n in EVERY} for kind in ("text", "brief"))
    assert json.loads(brief["deepspeed"]) == json.loads(full["deepspeed"])
    assert set(words_of(brief["megatron"])) <= set(words_of(full["megatron"]))
    assert "--global-batch-size" in words_of(brief["megatron"])
    usual = "data_parallel_replicate_degree", "tensor_parallel_degree", "pipeline_parallel_degree"
    for line in full["torchtitan"].splitlines():
        assert line in brief["torchtitan"] or line.endswith(tuple(f"{n} = 1" for n in usual))
    compile(brief["torchtitan"], "brief", "exec")
    compile(brief["fsdp2"], "brief", "exec")
    assert brief["fsdp2"] in full["fsdp2"] and brief["book"] == full["book"]
    assert max(len(line) for text in brief.values() for line in text.splitlines()) <= 88


@pytest.mark.parametrize("program", EVERY)
@pytest.mark.parametrize("name", SETUPS)
def test_lines_are_short_and_say_what_they_cannot(program, name):
    settings = EVERY[program](planned(name))
    assert settings.text and settings.program
    assert max(map(len, settings.text.splitlines())) <= 92
    assert all("\n" not in said and len(said) < 170 for said in settings.unsaid)
