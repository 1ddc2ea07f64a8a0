"""The arithmetic of many nodes: limits, known values, and what was measured."""

import random
from dataclasses import replace
from statistics import mean

import pytest

from rankbook import at_scale
from rankbook.at_scale import Link, Reads, Site
from rankbook.parallel import bubble
from rankbook.plots import recorded

LINK = Link("any", alpha=1e-5, beta=1e-9)
READS = Reads(opens=1000, names=2000, nbytes=1e8, environment=2e9, seconds=1.0)


def test_assumptions_are_listed_with_units():
    rows = {name: (value, why) for name, value, why in Site().rows()}
    assert rows["disk_requests"][0] == "20,000/s" and rows["latency"][0] == "10 µs"
    assert rows["node_mtbf"][0] == "264 days" and "Llama 3" in rows["node_mtbf"][1]
    assert Site(parameters=7e9).note("parameters", "restart") == (
        "assumed: parameters 7 billion, restart 300 s"
    )


def test_wrong_assumptions_are_one_sentence():
    with pytest.raises(ValueError, match="latency is 0; give more than 0"):
        Site(latency=0)
    with pytest.raises(ValueError, match="Site has no speed; it has ranks_per_node"):
        Site().note("speed")


def test_every_rank_asks_and_a_node_reads_once():
    site = Site(ranks_per_node=4, disk_requests=1e4, disk_bandwidth=1e9, node_bandwidth=1e9)
    assert at_scale.start_shared(3, READS, site) == pytest.approx(3 * 6000 / 1e4 + 0.3 + 1)
    more = replace(site, ranks_per_node=8)
    assert at_scale.start_shared(3, READS, more) > at_scale.start_shared(3, READS, site)
    assert at_scale.start_from_image(3, READS, more) == at_scale.start_from_image(3, READS, site)
    assert at_scale.start_from_image(3, READS, site) == pytest.approx(1.3, abs=1e-3)
    assert at_scale.start_from_copy(3, READS, site) == pytest.approx(3 * 2 + 1, abs=1e-3)


def test_one_node_cannot_take_all_the_bandwidth():
    site = Site(disk_bandwidth=10e9, node_bandwidth=1e9)
    seconds = [at_scale.start_from_copy(n, READS, site) for n in (1, 10, 20)]
    assert seconds == pytest.approx([3, 3, 5], abs=0.01)


def test_what_was_measured_of_an_import():
    reads = Reads.of(recorded("start_up")[0])
    assert reads.opens > 500 and reads.names > 1000 and reads.seconds > 0.1
    assert 1e7 < reads.nbytes < reads.environment
    with pytest.raises(ValueError, match="no row for tensorflow"):
        Reads.of(recorded("start_up")[0], "tensorflow")


@pytest.mark.parametrize("way", [at_scale.ring, at_scale.tree])
def test_alone_there_is_nothing_to_send(way):
    assert way(1, 1e6, LINK) == 0


@pytest.mark.parametrize("n", [2, 3, 8, 100])
def test_a_ring_step_by_step(n):
    steps = sum(LINK.alpha + 1e6 / n * LINK.beta for _ in range(2 * (n - 1)))
    assert at_scale.ring(n, 1e6, LINK) == pytest.approx(steps)


def test_from_the_crossing_on_latency_takes_more():
    n = at_scale.crossing(1e6, LINK)
    assert n == 100
    latency = at_scale.ring(100, 0, LINK)
    assert at_scale.ring(100, 1e6, LINK) == pytest.approx(2 * latency)
    assert at_scale.tree(512, 1e6, LINK) < at_scale.ring(512, 1e6, LINK)
    assert at_scale.tree(2, 1e6, LINK) > at_scale.ring(2, 1e6, LINK)


def test_the_fitted_link_gives_the_line_back_and_foretells_four_ranks():
    two, four = recorded("all_reduce-cpu")
    assert (two["ranks"], four["ranks"]) == (2, 4)
    for result in (two, four):
        fit, link = result["fit"], at_scale.fitted_link(result)
        line = fit["alpha_seconds"] + 1e6 * fit["beta_seconds_per_byte"]
        assert at_scale.ring(result["ranks"], 1e6, link) == pytest.approx(line)
    # Large messages only: four ranks on two cores wait for a core in every step.
    for row in four["rows"][-2:]:
        computed = 1e6 * at_scale.ring(4, row["bytes"], at_scale.fitted_link(two))
        assert row["median"] / 1.6 < computed < row["median"] * 1.6


def test_idle_is_the_formula_and_hardly_knows_the_stages():
    site = Site(ranks_per_node=8, global_batch=256)
    idle = at_scale.pipeline_idle([1, 4, 32], site, stages=8)
    assert idle == {n: pytest.approx(bubble(8, 256 // n)) for n in (1, 4, 32)}
    longer = at_scale.pipeline_idle([4, 32], site, stages=16)
    assert longer == {n: pytest.approx(idle[n], rel=0.25) for n in (4, 32)}
    zbv = at_scale.pipeline_idle([4], site, 8, "zbv")
    assert zbv[4] < idle[4] / 2


def test_what_cannot_run_is_left_out():
    site = Site(ranks_per_node=4, global_batch=64)
    # half a pipeline; 3 pipelines for 64 sequences; more pipelines than sequences
    assert list(at_scale.pipeline_idle([1, 2, 6, 64, 256], site, stages=8)) == [2, 64]


def test_bytes_and_seconds_of_a_checkpoint():
    site = Site(disk_bandwidth=10e9, node_bandwidth=1e9)
    nbytes = at_scale.state_bytes(1e9)
    assert nbytes == 14e9
    seconds = [at_scale.write_seconds(n, nbytes, site) for n in (1, 2, 10, 100)]
    assert seconds == pytest.approx([14, 7, 1.4, 1.4])
    assert at_scale.write_seconds(100, nbytes, site, sharded=False) == 14
    assert at_scale.job_mtbf(512, Site(node_mtbf=512 * 3600)) == 3600


@pytest.mark.parametrize("save", [1, 20, 200])
def test_youngs_period_is_nearly_the_best(save):
    lost = {
        factor: at_scale.lost_share(save, factor * at_scale.best_period(save, 36e3), 36e3, 300)
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
    assert at_scale.lost_share(save, period, mtbf, 30) == pytest.approx(share, abs=0.01)


def test_without_failures_only_saving_is_lost():
    assert at_scale.lost_share(10, 90, 1e12, 300) == pytest.approx(0.1)
