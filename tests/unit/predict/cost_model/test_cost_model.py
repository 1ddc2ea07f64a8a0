"""The arithmetic of many nodes: limits, known values, and what was measured."""

import random
from dataclasses import replace
from statistics import mean

import pytest

from plots import recorded
from rankbook.comm import Link
from rankbook.parallel.pipeline import bubble
from rankbook.predict import cost_model
from rankbook.predict.cost_model import ClusterSpec, Reads

LINK = Link("any", alpha=1e-5, beta=1e-9)
READS = Reads(opens=1000, names=2000, nbytes=1e8, environment=2e9, seconds=1.0)


def test_assumptions_are_listed_with_units():
    rows = {name: (value, why) for name, value, why in ClusterSpec().rows()}
    assert rows["disk_requests"][0] == "20,000/s" and rows["latency"][0] == "10 µs"
    assert rows["node_mtbf"][0] == "264 days" and "Llama 3" in rows["node_mtbf"][1]
    assert ClusterSpec(parameters=7e9).note("parameters", "restart") == (
        "assumed: parameters 7 billion, restart 300 s"
    )


def test_wrong_assumptions_are_one_sentence():
    with pytest.raises(ValueError, match="latency is 0; give more than 0"):
        ClusterSpec(latency=0)
    with pytest.raises(ValueError, match="ClusterSpec has no speed; it has ranks_per_node"):
        ClusterSpec().note("speed")


def test_every_rank_asks_and_a_node_reads_once():
    spec = ClusterSpec(
        ranks_per_node=4, disk_requests=1e4, disk_latency=1e-9, disk_bandwidth=1e9,
        node_bandwidth=1e9,
    )  # fmt: skip
    assert cost_model.questions(3, READS, 4) == 3 * (2000 + 4 * 2 * 1000)
    assert cost_model.start_shared(3, READS, spec) == pytest.approx(30000 / 1e4 + 0.3 + 1)
    more = replace(spec, ranks_per_node=8)
    assert cost_model.start_shared(3, READS, more) > cost_model.start_shared(3, READS, spec)
    image = [cost_model.start_from_image(3, READS, each) for each in (spec, more)]
    assert image == pytest.approx([1.3, 1.3])
    assert cost_model.start_from_copy(3, READS, spec) == pytest.approx(3 * 2 + 1)


def test_whoever_asks_alone_waits_for_each_answer():
    spec = ClusterSpec(ranks_per_node=1, disk_requests=1e9, disk_latency=1e-3)
    seconds = cost_model.start_shared(1, READS, spec)
    assert seconds == pytest.approx(4000 * 1e-3 + 1e8 / 2**17 * 1e-3 + 1e8 / 5e9 + 1)


def test_the_formula_against_the_measured_starts():
    """How far off it is, is on the page; what is held here is what the formula is for."""
    result = recorded("start_up_nodes")[0]
    rows = cost_model.start_up_errors(result)
    assert {row["way"] for row in rows} == {"shared", "copied", "image"}
    assert all(row["error"] == row["computed"] / row["measured"] - 1 for row in rows)
    by_case = {(row["way"], row["nodes"], row["ranks"]): row for row in rows}
    for (way, nodes, ranks), row in by_case.items():
        if way == "shared":
            assert row["foretold"] == pytest.approx(row["asked"], rel=0.25)
        assert abs(row["error"]) < 0.6, (way, nodes, ranks)


def test_one_node_cannot_take_all_the_bandwidth():
    spec = ClusterSpec(disk_bandwidth=10e9, node_bandwidth=1e9)
    seconds = [cost_model.start_from_copy(n, READS, spec) for n in (1, 10, 20)]
    assert seconds == pytest.approx([3, 3, 5], abs=0.01)


def test_what_was_measured_of_an_import():
    reads = Reads.of(recorded("start_up")[0])
    assert reads.opens > 500 and reads.names > 1000 and reads.seconds > 0.1
    assert 1e7 < reads.nbytes < reads.environment
    with pytest.raises(ValueError, match="no row for tensorflow"):
        Reads.of(recorded("start_up")[0], "tensorflow")


@pytest.mark.parametrize("way", [cost_model.ring, cost_model.tree])
def test_alone_there_is_nothing_to_send(way):
    assert way(1, 1e6, LINK) == 0


@pytest.mark.parametrize("n", [2, 3, 8, 100])
def test_a_ring_step_by_step(n):
    steps = sum(LINK.alpha + 1e6 / n * LINK.beta for _ in range(2 * (n - 1)))
    assert cost_model.ring(n, 1e6, LINK) == pytest.approx(steps)


def test_from_the_crossing_on_latency_takes_more():
    n = cost_model.crossing(1e6, LINK)
    assert n == 100
    latency = cost_model.ring(100, 0, LINK)
    assert cost_model.ring(100, 1e6, LINK) == pytest.approx(2 * latency)
    assert cost_model.tree(512, 1e6, LINK) < cost_model.ring(512, 1e6, LINK)
    assert cost_model.tree(2, 1e6, LINK) > cost_model.ring(2, 1e6, LINK)


def test_the_fitted_link_gives_the_line_back_and_foretells_four_ranks():
    two, four = recorded("all_reduce-cpu")
    assert (two["ranks"], four["ranks"]) == (2, 4)
    for result in (two, four):
        fit, link = result["fit"], cost_model.fitted_link(result)
        line = fit["alpha_seconds"] + 1e6 * fit["beta_seconds_per_byte"]
        assert cost_model.ring(result["ranks"], 1e6, link) == pytest.approx(line)
    # Large messages only: four ranks on two cores wait for a core in every step.
    for row in four["rows"][-2:]:
        computed = 1e6 * cost_model.ring(4, row["bytes"], cost_model.fitted_link(two))
        assert row["median"] / 1.6 < computed < row["median"] * 1.6


def test_idle_is_the_formula_and_hardly_knows_the_stages():
    spec = ClusterSpec(ranks_per_node=8, global_batch=256)
    idle = cost_model.pipeline_idle([1, 4, 32], spec, stages=8)
    assert idle == {n: pytest.approx(bubble(8, 256 // n)) for n in (1, 4, 32)}
    longer = cost_model.pipeline_idle([4, 32], spec, stages=16)
    assert longer == {n: pytest.approx(idle[n], rel=0.25) for n in (4, 32)}
    zbv = cost_model.pipeline_idle([4], spec, 8, "zbv")
    assert zbv[4] < idle[4] / 2


def test_what_cannot_run_is_left_out():
    spec = ClusterSpec(ranks_per_node=4, global_batch=64)
    # half a pipeline; 3 pipelines for 64 sequences; more pipelines than sequences
    assert list(cost_model.pipeline_idle([1, 2, 6, 64, 256], spec, stages=8)) == [2, 64]


def test_bytes_and_seconds_of_a_checkpoint():
    spec = ClusterSpec(disk_bandwidth=10e9, node_bandwidth=1e9)
    nbytes = cost_model.state_bytes(1e9)
    assert nbytes == 14e9
    seconds = [cost_model.write_seconds(n, nbytes, spec) for n in (1, 2, 10, 100)]
    assert seconds == pytest.approx([14, 7, 1.4, 1.4])
    assert cost_model.write_seconds(100, nbytes, spec, sharded=False) == 14
    assert cost_model.job_mtbf(512, ClusterSpec(node_mtbf=512 * 3600)) == 3600


@pytest.mark.parametrize("save", [1, 20, 200])
def test_youngs_period_is_nearly_the_best(save):
    lost = {
        factor: cost_model.lost_share(save, factor * cost_model.best_period(save, 36e3), 36e3, 300)
        for factor in (0.7, 0.9, 1, 1.1, 1.4)
    }
    assert lost[1] < min(lost[0.7], lost[1.4]) and lost[1] < 1.01 * min(lost.values())


@pytest.mark.parametrize(("save", "period", "mtbf"), [(5, 100, 1000), (20, 400, 600)])
def test_what_is_lost_by_brute_force(save, period, mtbf):
    chance = random.Random(0)

    def piece() -> float:
        """Seconds until one period is done and saved; who restarts can fail, too."""
        took, need = 0.0, period + save
        while (until := chance.expovariate(1 / mtbf)) < need:
            took += until
            while (again := chance.expovariate(1 / mtbf)) < 30:
                took += again
            took += 30
        return took + need

    share = 1 - period / mean(piece() for _ in range(20_000))
    assert cost_model.lost_share(save, period, mtbf, 30) == pytest.approx(share, abs=0.01)


def test_without_failures_only_saving_is_lost():
    assert cost_model.lost_share(10, 90, 1e12, 300) == pytest.approx(0.1)
