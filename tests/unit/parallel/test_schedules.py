"""What is left of a schedule for evaluation."""

from types import SimpleNamespace

from rankbook.parallel.schedules import _without_idle


def actions(line: str) -> list:
    """From ``0U 0F 0R``: stage, and what is done with it."""
    kinds = {"U": "UNSHARD", "R": "RESHARD", "F": "F"}
    return [
        SimpleNamespace(
            computation_type=SimpleNamespace(value=kinds[word[1]]), stage_index=int(word[0])
        )
        for word in line.split()
    ]


def said(line: str) -> str:
    kept = _without_idle(actions(line))
    return " ".join(f"{each.stage_index}{each.computation_type.value[0]}" for each in kept)


def test_nothing_is_gathered_that_no_forward_needs():
    assert said("0U 1U 0F 0R 1F 1R") == "0U 1U 0F 0R 1F 1R"
    # between: for a backward pass that does not come
    assert said("0U 0F 0R 1U 1R 0U 0F 1U 1R 0R 1U") == "0U 0F 0R 0U 0F 0R"
    assert said("1U 0U 1F 0R 1R") == "1U 1F 1R"
    assert said("0U 0F 1U 1F 0R") == "0U 0F 1U 1F 0R"  # never let go: nor was it before
