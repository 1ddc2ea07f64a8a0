"""The benchmark of plans: its margins by arithmetic, its command line, what its record promises."""

import json

import pytest

from benchmarks import plans
from benchmarks.plans import CASES, FILE, RULES, machines_of, predicted, simulated
from rankbook.predict.plan.in_small import equal_links

LOSE, WIN = "all tensor parallel", "tensor inside, stages across"
APART = 1.5  # predictions that differ by this factor are told apart


def stated(name: str, alpha: float = 1e-3) -> dict:
    """What a launch would find if the cable were as it is limited, and nothing else slow."""
    case = CASES[name]
    cable = {"alpha": alpha, "beta": 8 * case.per_node / case.bits}
    near = {"alpha": alpha, "beta": 1e-9}
    return {"links": {"inside": near, "between": cable}, "flops": case.flops}


def foretold(name: str, machines) -> dict[str, float]:
    case = CASES[name]
    return {plan: predicted(case, setup, machines) for plan, setup in case.plans.items()}


def worst_first(seconds: dict[str, float]) -> list[str]:
    return sorted(seconds, key=seconds.__getitem__, reverse=True)


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 2e-3])
def test_rules_are_foretold_to_lose_by_about_a_factor_of_two(alpha):
    links, bubble = (
        foretold(name, machines_of(stated(name, alpha), CASES[name].per_node)) for name in CASES
    )
    assert worst_first(links)[:2] == list(RULES[:2])
    assert links[RULES[0]] > 1.8 * links[RULES[1]]
    assert links[RULES[1]] > 1.9 * max(v for k, v in links.items() if k not in RULES)
    few, many, replicas = bubble.values()
    assert few > 1.9 * replicas and few > 1.7 * many


def test_who_forgets_the_network_ranks_otherwise():
    """Inside a node tensor parallelism is the better one: it has no bubble."""
    machines = machines_of(stated("links"), CASES["links"].per_node)
    slow, equal = foretold("links", machines), foretold("links", equal_links(machines))
    assert slow[LOSE] > slow[WIN] and equal[LOSE] < equal[WIN]
    assert worst_first(slow) != worst_first(equal)


def test_the_simulator_foretells_the_bubble():
    """With messages that take no time, a step is (m + p - 1) / m times its work."""
    case, found = CASES["bubble"], stated("bubble", 0.0)
    found["links"]["between"]["beta"] = found["links"]["inside"]["beta"] = 0.0
    machines = machines_of(found, case.per_node)
    seconds = {name: simulated(case, setup, machines) for name, setup in case.plans.items()}
    few, many = seconds[RULES[2]], seconds["8 stages, 32 microbatches"]
    # the last stage has the head beside its layer, the others wait for it
    assert few / many == pytest.approx((11 / 4) / (39 / 32), rel=0.05)
    step = foretold("bubble", machines)
    assert seconds == pytest.approx(step, rel=0.1)


def test_plans_take_all_ranks_and_the_same_batch():
    for case in CASES.values():
        for setup in case.plans.values():
            assert setup.ranks == 2 * case.per_node
            assert setup.dp * setup.microbatches * setup.sequences == plans.ROWS


def test_without_slow_cables_one_sentence_says_why(monkeypatch, capsys):
    monkeypatch.setattr(plans, "why_not_slow", lambda: "network namespaces need root")
    with pytest.raises(SystemExit) as end:
        plans.main([])
    assert end.value.code == 2
    assert capsys.readouterr().err.endswith("error: network namespaces need root\n")


def test_the_record_ranks_as_foretold():
    """Every pair of plans whose predictions are apart was measured in that order."""
    rows = json.loads(FILE.read_text("utf-8"))["rows"]
    assert [row["plan"] for row in rows] == [plan for case in CASES.values() for plan in case.plans]
    for one in rows:
        for other in rows:
            if one["case"] == other["case"] and one["predicted"] > APART * other["predicted"]:
                assert one["median"] > other["median"], (one["plan"], other["plan"])
                assert one["p10"] > other["p90"], (one["plan"], other["plan"])
    for rule in (row for row in rows if row["rule"]):
        better = [row for row in rows if row["case"] == rule["case"] and not row["rule"]]
        assert all(rule["predicted"] > APART * row["predicted"] for row in better)


def test_the_record_has_what_step_time_says_now(tmp_path):
    copy = tmp_path / "copy.json"
    copy.write_text(FILE.read_text("utf-8"), "utf-8")
    plans.predict_again(copy)
    again = "step_time has changed: run `python -m benchmarks.plans --predict-again`"
    assert json.loads(copy.read_text("utf-8")) == json.loads(FILE.read_text("utf-8")), again


def test_in_the_record_equal_links_would_have_ranked_otherwise():
    rows = {row["plan"]: row for row in json.loads(FILE.read_text("utf-8"))["rows"]}
    assert rows[LOSE]["median"] > rows[WIN]["median"]
    assert rows[LOSE]["equal links"] < rows[WIN]["equal links"]
