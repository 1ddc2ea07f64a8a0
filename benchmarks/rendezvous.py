"""What the c10d rendezvous of torchrun costs, by the number of agents.

    python -m benchmarks.rendezvous

Writes book/results/rendezvous-cpu-N.json, N the number of cores. The agents are torch's own
handlers, each in a process, and share these cores, one store and the loopback: where they are many,
they wait for a core. So the costs of one agent at a time stand beside, for a simulation. Nothing
else should run on the machine meanwhile.

torch notes each change with `inspect.stack()`, and below `python -m` that takes ten times as long
as below the command torchrun. So everything runs in threads here, whose stacks start anew.
"""

import argparse
import multiprocessing
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import torch.distributed as dist
from torch.distributed.elastic.rendezvous import dynamic_rendezvous as dynamic
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend

from benchmarks.record import check_repeats, load_average, summary, write

AGENTS = (2, 4, 8, 16, 32, 64, 128)
MEMBERS = 512  # up to which the costs of one agent are taken
ADDRESS = "node-{:04}.cluster.internal"
FORK = multiprocessing.get_context("fork")  # agents need not import torch again
WHAT = (
    "Agents of torchrun that meet by c10d, fixed size, started at once on these cores: until the "
    "last one knows its rank. writes: how often they tried to change the list of members; MB: what "
    "they sent to the store and got from it"
)


class Backend(C10dRendezvousBackend):
    """torch's own, which notes its calls: (what, seconds since the last call, seconds, bytes both
    ways, bytes of the answer)."""

    def __init__(self, store, run: str):
        self.calls, self.last = [], time.monotonic()
        super().__init__(store, run)

    def _call_store(self, what, *words):
        start = time.monotonic()
        answer = super()._call_store(what, *words)
        nbytes = sum(map(len, words[1:])) + len(answer)
        end = time.monotonic()
        self.calls.append((what, start - self.last, end - start, nbytes, len(answer)))
        self.last = end
        return answer


def handler(store, number: int, agents: int, deadline: float):
    """Of agent `number`, with its backend."""
    backend = Backend(store, "benchmark")
    waits = dynamic.RendezvousTimeout(join=timedelta(seconds=deadline))
    return backend, dynamic.DynamicRendezvousHandler.from_backend(
        "benchmark", store, backend, agents, agents, ADDRESS.format(number), waits
    )


def main(arguments: list[str] | None = None) -> None:
    """Measure, print one line a row, and write the result."""
    parser = argparse.ArgumentParser(description="Time the rendezvous of many agents.")
    parser.add_argument("--agents", type=int, nargs="+", default=AGENTS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--deadline", type=float, default=40, help="seconds for one of them (40)")
    options = parser.parse_args(arguments)
    check_repeats(parser, options.repeats)
    if min(options.agents) < 2:
        parser.error("--agents: nobody meets alone; use 2 or more")
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # the names above are nobody's
    os.environ["TORCH_CPP_LOG_LEVEL"] = "ERROR"  # as the store says of each client
    load = load_average()
    rows, first = [], []
    for agents in options.agents:
        runs = [together(agents, options.deadline) for _ in range(options.repeats)]
        rows.append(row_of(agents, runs))
        if agents == min(options.agents):
            first = [each for found in runs for each in found["first"]]
        print("  ".join(f"{name} {value}" for name, value in rows[-1].items()), flush=True)
    costs = {"first": statistics.median(first)} | in_thread(one_by_one)
    print(costs)
    about = {"kind": "CPU", "backend": "c10d", "load": load, "costs": costs}
    cores = len(os.sched_getaffinity(0))
    print(write(f"rendezvous-cpu-{cores}", WHAT, rows, libraries=("torch",), **about))


def row_of(agents: int, runs: list[dict]) -> dict:
    """Medians over `runs`, seconds with their spread."""
    writes, nbytes = (statistics.median(run[key] for run in runs) for key in ("writes", "bytes"))
    seconds = [run["seconds"] for run in runs]
    found = {"agents": agents, "unit": "s"} | summary(seconds, unit=1)
    return found | {"writes": writes, "MB": round(nbytes / 1e6, 2)}


def together(agents: int, deadline: float) -> dict:
    """Let `agents` processes meet. Raises TimeoutError if they have not after `deadline` s."""
    processes, start = [], FORK.Barrier(agents)
    try:
        # not in this process: what is forked while a store's threads run may hang
        port = forked(serve, processes, deadline).recv()
        words = (agents, port, deadline, start)
        pipes = [forked(agent, processes, number, *words) for number in range(agents)]
        until = time.monotonic() + deadline + 30
        said = [p.recv() for p in pipes if p.poll(max(0, until - time.monotonic()))]
    except EOFError:
        said = []
    finally:
        for process in processes:
            process.kill()
            process.join()
    if len(said) < agents:
        raise TimeoutError(f"{agents} agents have not met within {deadline:g} s")
    began, ended = min(s["start"] for s in said), max(s["end"] for s in said)
    sums = {key: sum(s[key] for s in said) for key in ("writes", "bytes")}
    return {"seconds": ended - began, "first": [s["first"] for s in said]} | sums


def forked(work, processes: list, *words):
    """Let a process do `work`; the end of the pipe that it writes to."""
    mine, theirs = FORK.Pipe(duplex=False)
    processes.append(FORK.Process(target=work, args=(theirs, *words), daemon=True))
    processes[-1].start()
    theirs.close()  # so that the end of the process is the end of the pipe
    return mine


def serve(pipe, deadline: float) -> None:
    """The process with the store."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    pipe.send(store.port)
    time.sleep(2 * deadline + 60)  # until it is killed


def agent(pipe, number: int, agents: int, port: int, deadline: float, start) -> None:
    """The process of one agent: join, and send what it took."""
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=deadline))
    start.wait(deadline)
    began = time.monotonic()
    backend, meeting = handler(store, number, agents, deadline)
    in_thread(meeting.next_rendezvous)
    ended = time.monotonic()
    sets = [call for call in backend.calls if call[0] == "compare_set"][1:]  # 0 made the key
    found = {"start": began, "end": ended, "writes": len(sets), "first": sets[0][1]}
    pipe.send(found | {"bytes": sum(call[3] for call in backend.calls)})
    time.sleep(deadline)  # until it is killed: whoever leaves early would change the list


def in_thread(work):
    """What `work` gives, in a thread that has no other caller."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(work).result()


def one_by_one(members: int = MEMBERS) -> dict[str, list[float]]:
    """One agent after the other, nobody in its way: lines (fixed, for each member) of seconds in
    the client and until the store's answer, and of the bytes of the list."""
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    joined = {"client": [], "store": [], "nbytes": []}
    for number in range(members):
        backend, meeting = handler(server, number, members + 1, 60)
        executor = meeting._op_executor
        executor.run(lambda context, deadline: dynamic._Action.FINISH, time.monotonic() + 60)
        executor.run(join_only, time.monotonic() + 60)
        _, client, store, _, nbytes = backend.calls[-1]
        joined["client"].append(client)
        joined["store"].append(store)
        joined["nbytes"].append(nbytes)
    return {name: line(values) for name, values in joined.items()}


def join_only(context, deadline):
    """Be a member, and do not wait for others."""
    here = context.node in context.state.participants
    return dynamic._Action.FINISH if here else dynamic._Action.ADD_TO_PARTICIPANTS


def line(values: list[float]) -> list[float]:
    """(at none, for each more) of values at 1, 2, ... members: Theil and Sen's, which a few
    outliers do not bend."""
    half = len(values) // 2
    slopes = [(values[i + half] - values[i]) / half for i in range(half)]
    slope = statistics.median(slopes)
    return [statistics.median(v - slope * (i + 1) for i, v in enumerate(values)), slope]


if __name__ == "__main__":
    main()
