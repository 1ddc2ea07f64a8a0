"""Where a forked process becomes a rank: the only thing the notebook names of a rank's kernel."""

from rankbook.live.ranks.spec import RankSpec


def run_rank(spec: RankSpec, environment: dict[str, str], ready) -> None:
    """The rank's main program, in the forked process: it has torch loaded, the notebook has not."""
    from rankbook.live.ranks.kernel import run

    run(spec, environment, ready)
