"""Plans by rule of thumb against better ones: foretold, and live on two hosts with a slow cable.

    python -m benchmarks.plans
    python -m benchmarks.plans --predict-again

Writes book/results/plans-cpu-2.json. Two hosts are network namespaces whose cable carries so many
bits per second and no more (needs root, ip and tc); ranks of one host talk over its loopback. Cards
are pretended: a rank sleeps as long as a card of the stated FLOP/s computes, so ranks do not
compete for cores as much. All else is real: the model, its arithmetic, the messages.

With --predict-again nothing is measured: the recorded seconds, links and FLOP/s are put beside what
`step_time` now says of them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.harness import show
from benchmarks.record import RESULTS, check_repeats, load_average, summary, write
from rankbook.comm.ring_model import Link
from rankbook.core.atomic import write_text_atomic
from rankbook.models import TransformerConfig
from rankbook.parallel.pipeline.durations import Durations
from rankbook.parallel.pipeline.plan import PipelinePlan
from rankbook.parallel.pipeline.simulator import simulate
from rankbook.predict.memory.model_shape import ModelShape
from rankbook.predict.memory.setup import Setup
from rankbook.predict.plan import Machines, step_time
from rankbook.predict.plan.in_small import equal_links, small_machines
from rankbook.testbed.hosts import Host, two_hosts, why_not_slow

ROOT = Path(__file__).resolve().parents[1]
FILE = RESULTS / "plans-cpu-2.json"
ROWS, WINDOW = 32, 32
DEADLINE = 600.0  # seconds of one launch


@dataclass(frozen=True)
class Case:
    """Plans for one model on the same ranks, the rules of thumb among them.

    bits: per second, of the cable between the two hosts. flops: FLOP/s of a pretended card.
    """

    plans: dict[str, Setup]
    layers: int
    per_node: int
    bits: float
    flops: float

    @property
    def config(self) -> TransformerConfig:
        """Of the model: width 64, a vocabulary of 64."""
        return TransformerConfig(64, 64, 256, 8, self.layers, max_length=WINDOW)


def _setup(**given) -> Setup:
    share = ROWS // given.get("dp", 1) // given.get("microbatches", 1)
    return Setup(**given, sequences=share, precision="float32")


CASES = {
    "links": Case(
        {
            "ZeRO 3, tiny batches": _setup(dp=4, zero=3, microbatches=8),
            "all tensor parallel": _setup(tp=4),
            "tensor inside, stages across": _setup(pp=2, tp=2, microbatches=2),
            "tensor inside, replicas across": _setup(dp=2, tp=2),
            "ZeRO 3, one batch": _setup(dp=4, zero=3),
            "ZeRO 0, tiny batches": _setup(dp=4, microbatches=8),
        },
        layers=4,
        per_node=2,
        bits=40e6,
        flops=0.8e9,
    ),
    "bubble": Case(
        {
            "8 stages, 4 microbatches": _setup(pp=8, microbatches=4, schedule="gpipe"),
            "8 stages, 32 microbatches": _setup(pp=8, microbatches=32),
            "2 stages, 4 replicas": _setup(pp=2, dp=4, microbatches=4),
        },
        layers=8,
        per_node=4,
        bits=50e6,
        flops=0.25e9,
    ),
}
RULES = ("ZeRO 3, tiny batches", "all tensor parallel", "8 stages, 4 microbatches")
WHAT = (
    f"Plans by rule of thumb and better ones: seconds of a training step of {ROWS} rows of "
    f"{WINDOW} tokens, of Transformers of width 64, on two hosts with a slow cable, beside "
    "step_time, which knows a pretended card's FLOP/s and alpha and beta of the links, all "
    "measured in the same launch. simulated: what the simulator says of a pipeline's work and "
    "messages, instead of step_time. equal links: step_time by one who forgets the network. sent: "
    "bytes on the cable when all ranks share 256 KiB; gloo's reduce_scatter sends as much as an "
    "all_reduce, twice what is foretold"
)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plans", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="timed steps of each plan")
    parser.add_argument("--predict-again", action="store_true", help="of what was recorded")
    options = parser.parse_args(arguments)
    if options.predict_again:
        return predict_again(FILE)
    check_repeats(parser, options.repeats)
    if reason := why_not_slow():
        parser.error(reason)
    load = load_average()
    rows, measured = [], {}
    for name, case in CASES.items():
        found = live(case, case.plans, options.repeats)
        measured[name] = {key: found[key] for key in ("links", "flops", "sent")}
        measured[name] |= {"bits_per_second": case.bits, "pretended_flops": case.flops}
        rows += [
            row_of(name, plan) | summary(seconds, unit=1.0)
            for plan, seconds in found["seconds"].items()
        ]
    foretell(rows, measured)
    show(*rows)
    more = {"kind": "CPU", "load": load, "measured": measured, "median_error": median_error(rows)}
    print(write(FILE.stem, WHAT, rows, libraries=("torch",), **more))


def row_of(name: str, plan: str) -> dict:
    """What a row of the result says before anything is measured."""
    setup = CASES[name].plans[plan]
    row = {"case": name, "plan": plan, "rule": plan in RULES, "layout": layout(setup)}
    return row | {"unit": "s"}


def foretell(rows: list[dict], measured: dict) -> None:
    """Put the predictions into rows, from the links and FLOP/s of each case's launch."""
    for row in rows:
        case = CASES[row["case"]]
        setup, machines = case.plans[row["plan"]], machines_of(measured[row["case"]], case.per_node)
        foretold = predicted(case, setup, machines)
        row["predicted"] = round(foretold, 3)
        row["error"] = round(foretold / row["median"] - 1, 3)
        if setup.pp > 1:
            row["simulated"] = round(simulated(case, setup, machines), 3)
        row["equal links"] = round(predicted(case, setup, equal_links(machines)), 3)


def median_error(rows: list[dict]) -> float:
    """Of the predictions, without their signs."""
    return round(statistics.median(abs(row["error"]) for row in rows), 3)


def predict_again(path: Path) -> None:
    """Foretell what is recorded in `path` once more, and write it back."""
    result = json.loads(path.read_text("utf-8"))
    foretell(result["rows"], result["measured"])
    result["median_error"] = median_error(result["rows"])
    write_text_atomic(path, json.dumps(result, indent=1, ensure_ascii=False) + "\n")


def layout(setup: Setup) -> str:
    """As the result names it: "dp=4, ZeRO 3, 8 x 1 rows"."""
    words = [str(setup.layout).replace(",", ", ")]
    words += [f"ZeRO {setup.zero}"] * bool(setup.zero)
    return ", ".join([*words, f"{setup.microbatches} x {setup.sequences} rows"])


def predicted(case: Case, setup: Setup, machines: Machines) -> float:
    """Seconds of a step, foretold."""
    return step_time(ModelShape.of(case.config), setup, machines).total


def simulated(case: Case, setup: Setup, machines: Machines) -> float:
    """The same of a pipeline, its stages' work and messages played by the simulator."""
    shape, tokens = ModelShape.of(case.config), setup.sequences * WINDOW
    layers = shape.layers / setup.pp * shape.flops_of_layer
    forward = tokens * layers / setup.tp / machines.card.flops
    nbytes = 4 * tokens * shape.hidden / setup.tp  # float32
    card = machines.card
    far, near = (link.alpha + nbytes * link.beta for link in (card.between, card.inside))
    head = shape.flops_of_head / layers  # beside a pass through the layers
    durations = Durations(forward, forward, forward, near, head, between_halves=far)
    plan = PipelinePlan(setup.schedule, setup.pp, setup.microbatches)
    rest = step_time(shape, setup, machines)
    beside = sum(rest[name].value for name in ("tensor", "replicas"))
    return simulate(plan, durations).span + beside


def machines_of(found: dict, per_node: int) -> Machines:
    """The machines of a launch, as it measured them."""
    links = {name: Link(f"{name}, fitted", **line) for name, line in found["links"].items()}
    return small_machines(found["flops"], links["inside"], links["between"], per_node)


def live(case: Case, plans: dict[str, Setup], repeats: int) -> dict:
    """Time `plans` on two hosts: {"seconds": by plan, "links": alpha and beta, "flops", "sent"}.

    Raises RuntimeError with what was said if a rank fails, or all take too long.
    """
    job = {"config": asdict(case.config), "rows": ROWS, "flops": case.flops, "repeats": repeats}
    job |= {"per_node": case.per_node, "plans": {n: asdict(plan) for n, plan in plans.items()}}
    with tempfile.TemporaryDirectory() as folder, two_hosts() as hosts:
        given, result = Path(folder, "job.json"), Path(folder, "result.json")
        given.write_text(json.dumps(job), "utf-8")
        for host in hosts:
            host.limit(case.bits)
        agents = [_agent(i, host, hosts[0], case.per_node, given, result)
                  for i, host in enumerate(hosts)]  # fmt: skip
        _finish(agents, folder)
        return json.loads(result.read_text("utf-8"))


def _agent(
    number: int, host: Host, first: Host, per_node: int, job: Path, result: Path
) -> subprocess.Popen:
    torchrun = ["-m", "torch.distributed.run", "--nnodes", "2", "--node-rank", str(number),
                "--nproc-per-node", str(per_node), "--master-addr", first.address,
                "--master-port", "29400", "-m", "benchmarks.plans_ranks"]  # fmt: skip
    with (job.parent / host.name).open("wb") as log:
        return subprocess.Popen(
            host.command(sys.executable, *torchrun, str(job), str(result)),
            env={
                **{k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")},
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
                "GLOO_SOCKET_IFNAME": host.interface,  # to its own address: by the loopback
                "OMP_NUM_THREADS": "1",
            },
            cwd=ROOT,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _finish(agents: list[subprocess.Popen], folder: str) -> None:
    """Wait for all; none is left running."""
    end = time.monotonic() + DEADLINE
    try:
        codes = [agent.wait(max(1.0, end - time.monotonic())) for agent in agents]
    except subprocess.TimeoutExpired:
        codes = [1]
    finally:
        for agent in agents:
            agent.kill()
            agent.wait()
    if any(codes):
        said = [path.read_text("utf-8") for path in Path(folder).iterdir() if not path.suffix]
        raise RuntimeError("the ranks of the plans failed:\n" + "\n".join(said))


if __name__ == "__main__":
    main()
