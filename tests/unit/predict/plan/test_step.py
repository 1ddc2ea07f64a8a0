"""The cost model of a step: each term beside arithmetic done by hand, and the simulator."""

from dataclasses import replace

import pytest

from rankbook.comm.ring_model import Link, half_ring
from rankbook.parallel.pipeline.plan import PipelinePlan
from rankbook.parallel.pipeline.simulator import simulate
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.plan.machines import Assumptions, Card, Machines
from rankbook.predict.plan.step import idle_share, step_time

SHAPE = ModelShape(4, 8, 2, 32, 16, sequence=10, biases=False)
NEAR, FAR = Link("near", 1.0, 0.1), Link("far", 5.0, 1.0)
CARD = Card("slow", 1e9, 1000.0, 1e30, NEAR, FAR, per_node=2)  # elementwise work costs nothing
EXACT = Assumptions(matmul=1, attention=1, memory=1, link=1, hidden=0, workspace=0, fragments=0)


def step(gpus=1, **setup):
    machines = Machines(CARD, gpus, assumed=EXACT)
    return step_time(SHAPE, Setup(precision="float32", **setup), machines)


def test_arithmetic_is_that_of_the_shape():
    tokens = 3 * 2 * 10
    seconds = step(microbatches=3, sequences=2)["compute"].value
    assert seconds == pytest.approx(SHAPE.flops * tokens / 1000)


def test_flops_of_the_shape_by_hand():
    matrices = 4 * 8 * 8 + 2 * 8 * 32
    scores_and_sums = 2 * (2 * 8 * 10) / 2  # half of the sequence: causal
    assert SHAPE.flops == 3 * (4 * (2 * matrices + scores_and_sums) + 2 * 8 * 16)


def test_checkpointing_costs_a_forward_pass():
    forward = 4 * SHAPE.flops_of_layer * 10 / 1000
    assert step()["recompute"].value == 0
    assert step(checkpointing="layers")["recompute"].value == pytest.approx(forward)
    assert 0 < step(checkpointing="selective")["recompute"].value < forward / 2


def test_selective_computes_all_but_matrices_anew_and_attention_its_core_alone():
    """As `rankbook.predict.memory.cures` does it live, and as Megatron-LM's selective."""
    machines = Machines(replace(CARD, bandwidth=1.0), 2, assumed=EXACT)
    none, attention, selective, layers = (
        step_time(SHAPE, Setup(tp=2, precision="float32", checkpointing=how), machines)
        for how in ("none", "attention", "selective", "layers")
    )
    assert attention["recompute"].value == selective["recompute"].value
    assert none["elementwise"] == attention["elementwise"]
    assert selective["elementwise"] == layers["elementwise"]
    assert none["elementwise"].value < layers["elementwise"].value
    rings = [round(t["tensor"].value / (1.0 + 10 * 8 * 4 / 2 * 0.1)) for t in (none, selective)]
    assert rings == [8 * 4 + 4, 10 * 4 + 4]


@pytest.mark.parametrize("pp, m", [(2, 2), (2, 8), (4, 4), (4, 32), (8, 4), (8, 64)])
def test_the_idle_share_is_the_simulators(pp, m):
    schedule = "gpipe" if m < pp else "1f1b"
    played = simulate(PipelinePlan(schedule, pp, m)).idle_share
    assert idle_share(pp, m) == pytest.approx(played, abs=1e-9)


MESSAGE = 10 * 8 * 4 * 0.1 + 1.0  # of a microbatch's values, inside a node


def test_a_bubble_comes_on_top_of_work():
    terms = step(2, pp=2, microbatches=3)
    work = sum(terms[name].value for name in ("compute", "elementwise"))
    assert terms["bubble"].value == pytest.approx(work / 3)  # idle 1/4


def test_messages_fill_the_pipeline_and_1f1b_waits_for_each():
    assert step(2, pp=2, microbatches=3)["pipeline"].value == pytest.approx(2 * (1 + 3) * MESSAGE)
    filled = step(2, pp=2, microbatches=3, schedule="gpipe")
    assert filled["pipeline"].value == pytest.approx(2 * MESSAGE)


def test_a_hop_between_nodes_is_filled_once_each_way():
    """Four stages on two nodes: two hops inside, one between."""
    far = 10 * 8 * 4 * 1.0 + 5.0
    terms = step(4, pp=4, microbatches=2, schedule="gpipe")
    assert terms["pipeline"].value == pytest.approx(2 * (2 * MESSAGE + far))
    steady = step(4, pp=4, microbatches=4)["pipeline"].value
    assert steady == pytest.approx(terms["pipeline"].value + 2 * 4 * far)


def test_chunks_take_turns_and_wait_less_for_more_messages():
    turns = step(2, pp=2, microbatches=2, chunks=2)
    assert turns["pipeline"].value == pytest.approx(2 * (1 + 4) * MESSAGE)
    work = sum(turns[name].value for name in ("compute", "elementwise"))
    assert turns["bubble"].value == pytest.approx(work / 4)  # (pp - 1) / (m chunks)
    assert "2 chunks" in turns["bubble"].formula


def test_tensor_parallelism_pays_for_rings_and_divides_the_work():
    alone, cut = step(), step(2, tp=2)
    assert cut["compute"].value == pytest.approx(alone["compute"].value / 2)
    one = 1.0 + 10 * 8 * 4 / 2 * 0.1
    assert cut["tensor"].value == pytest.approx((8 * 4 + 4) * one)


def test_links_between_nodes_are_shared_by_the_members_of_a_node():
    machines = Machines(CARD, 8, assumed=EXACT)
    assert machines.link(2) == NEAR
    assert machines.link(4).beta == 0.5  # two members on each node, two cards
    assert machines.link(4, stride=2).beta == 1.0
    assert [link.beta for link in machines.hops(4, 1)] == [0.1, 0.1, 1.0]
    assert [link.beta for link in machines.hops(2, 2)] == [1.0]


def test_what_backward_hides_of_the_replicas_messages():
    none = step(2, dp=2)["replicas"].value
    gradients = 2 * half_ring(2, 4 * SHAPE.parameters, NEAR, 1)
    assert none == pytest.approx(gradients)
    some = replace(EXACT, hidden=0.5)
    machines = Machines(CARD, 2, assumed=some)
    setup = Setup(dp=2, precision="float32")
    terms = step_time(SHAPE, setup, machines)
    hidden = 0.5 * 2 / 3 * (terms["compute"].value + terms["elementwise"].value)
    assert terms["replicas"].value == pytest.approx(max(0.0, gradients - hidden))


def test_zero_3_gathers_for_every_microbatch():
    few, many = (step(2, dp=2, zero=3, microbatches=m)["replicas"].value for m in (1, 4))
    assert many > 3 * few
    kept = step(2, dp=2, zero=3, microbatches=4, reshard=False)["replicas"].value
    assert kept < many


def test_groups_with_a_copy_each_average_among_themselves():
    shared = step(8, dp=8, zero=3, shard=2)["replicas"].value
    assert shared < step(8, dp=8, zero=3)["replicas"].value  # parameters stay on the node
    assert shared > step(2, dp=2, zero=3)["replicas"].value


def test_the_update_is_cut_where_the_state_is():
    machines = Machines(replace(CARD, bandwidth=1.0), 2, assumed=EXACT)
    whole, cut = (
        step_time(SHAPE, Setup(dp=2, zero=z, precision="bf16"), machines)["update"].value
        for z in (0, 1)
    )
    assert whole == 28 * SHAPE.parameters == 2 * cut


def test_every_term_says_its_formula():
    for name, term in step(8, pp=2, dp=2, tp=2, zero=1, microbatches=4).items():
        assert term.formula, name


def test_gradients_in_32_bits_are_twice_as_long_on_their_way():
    halves, words = (
        step_time(SHAPE, Setup(dp=2, precision=precision), Machines(CARD, 2, assumed=EXACT))
        for precision in ("bf16", "bf16-fp32-grads")
    )
    latency = 2 * NEAR.alpha
    half, word = (terms["replicas"].value - latency for terms in (halves, words))
    assert word == pytest.approx(2 * half)
    assert words["compute"] == halves["compute"]


def test_zero_3_waits_for_the_first_layer_once():
    """What nothing hides is all of it; where everything could be hidden, the first gather stays."""
    bare = step(2, dp=2, zero=3, microbatches=2)["replicas"].value
    gathered = half_ring(2, 4 * SHAPE.parameters, NEAR, 4)
    assert bare == pytest.approx(2 * 3 * gathered)
    hidden = Machines(CARD, 2, assumed=replace(EXACT, hidden=1e9))
    setup = Setup(dp=2, zero=3, precision="float32", microbatches=2)
    assert step_time(SHAPE, setup, hidden)["replicas"].value == pytest.approx(gathered / 4)
