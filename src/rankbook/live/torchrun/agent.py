"""The agent's process: the real ``torch.distributed.run``, on the reader's own options.

Started by path (cold) or called in a forked process that has torch loaded (warm). What it adds:
where logs go, a c10d rendezvous on 127.0.0.1 unless the reader chose another, and a file that
tells how the workers ended.
"""

import argparse
import json
import os
import sys
from pathlib import Path

if __name__ == "__main__":  # started by path: find this package, not this folder
    sys.path[0] = str(Path(__file__).parents[3])

from rankbook.core.parent_death import die_with_parent
from rankbook.live.torchrun.loopback import is_loopback, keep_to_loopback
from rankbook.live.torchrun.notes import read_note, write_note

WORKER = str(Path(__file__).with_name("worker.py"))
PROGRAM_STARTS = "rankbook-program-starts-here"
RENDEZVOUS = {"standalone", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "master_addr",
              "master_port", "node_rank"}  # fmt: skip


class WrongOptions(Exception):
    """The options do not go together; the message is for the reader."""


def main(directory: Path) -> int:
    """Run torchrun as `directory`'s request says; return its exit code.

    Leaves ``plan.json`` (what will be started), and ``end.json`` if it fails.
    """
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    request = read_note(directory / "request.json")
    try:
        arguments, plan = make_plan(run.get_args_parser(), request, directory)
        if plan["loopback"]:
            _stay_on_loopback()
        write_note(directory / "plan.json", plan)
        _name_methods_fast()
        run.main(arguments)
    except WrongOptions as error:
        write_note(directory / "end.json", {"usage": str(error)})
        return 2
    except ChildFailedError as error:
        write_note(directory / "end.json", {"workers": _endings(error.failures)})
        return 1
    except SignalException as error:
        write_note(directory / "end.json", {"error": f"it got {error.sigval.name}"})
        return 128 + error.sigval
    except Exception as error:
        write_note(directory / "end.json", {"error": f"{type(error).__name__}: {error}"})
        raise
    return 0


def make_plan(parser: argparse.ArgumentParser, request: dict, directory: Path):
    """torchrun's whole command line, as a list, and what the notebook must know of it.

    The reader's options stand last, so that they win over ours.
    """
    options, trailing, given = _read_options(parser, request["options"])
    chosen = {name for name, value in vars(given).items() if value != parser.get_default(name)}
    if chosen & {"module", "no_python"}:
        raise WrongOptions("the cell is the program: leave out --module and --no-python")
    if given.nproc_per_node.lstrip("+-").isdigit() and int(given.nproc_per_node) < 1:
        raise WrongOptions(f"--nproc-per-node {given.nproc_per_node} starts nothing; use 1 or more")
    ours = ["--redirects", "3", "--log-dir", str(directory / "log"), "--monitor-interval", "0.1"]
    if hasattr(given, "shutdown_timeout"):  # for an interrupt: torch's own is 30 seconds
        ours += ["--shutdown-timeout", "2"]
    merged = []
    if request["node"] or given.max_restarts:
        # With the store shared between agent and workers (the default), torch 2.13 can neither
        # restart workers nor take a node in: restarted ranks read the dead ones' addresses, and
        # rank 0 does not publish its own for the new round. So rank 0's worker hosts a store.
        os.environ.setdefault("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1")
    if not chosen & RENDEZVOUS:
        mine, merged = _rendezvous(given, request)
        ours += mine
    host = given.rdzv_endpoint.rpartition(":")[0] or given.rdzv_endpoint or given.master_addr
    loopback = is_loopback(given.local_addr or host)
    if loopback:
        ours += ["--local-addr", "127.0.0.1"]
    plan = {
        "loopback": loopback,
        # Who asks torchrun to show or sort the output gets torchrun's own.
        "follow_ranks": not chosen & {"tee", "redirects", "logs_specs"}
        and given.log_dir != os.devnull,
        "local_ranks": _ranks(given.local_ranks_filter),
        "max_restarts": given.max_restarts,
    }
    if not given.run_path:
        os.environ["RANKBOOK_AGENT"] = str(os.getpid())
    return [*ours, *options, *merged, WORKER, *trailing, *request["program"]], plan


def _read_options(parser: argparse.ArgumentParser, options: list[str]):
    """The reader's words by torchrun's own parser: its options, then the program's arguments."""

    def refuse(message: str):
        if "training_script" in message:  # the last option took the mark for its value
            message = f"{options[-1]} expects a value"
        raise WrongOptions(f"torchrun: {message}")

    parser.error = refuse
    given = parser.parse_args([*options, PROGRAM_STARTS])
    words = [given.training_script, *given.training_script_args]
    trailing = words[:-1] if words[-1] == PROGRAM_STARTS else words
    return options[: len(options) - len(trailing)], trailing, given


def _rendezvous(given: argparse.Namespace, request: dict):
    """Options for a rendezvous on this machine: before the reader's options, and after them."""
    if request["rdzv_endpoint"] is None:
        if given.nnodes.rpartition(":")[2] != "1":
            raise WrongOptions(
                f"--nnodes {given.nnodes} needs several agents; start each with --node NAME"
            )
        return ["--standalone"], []
    before = ["--rdzv-backend", "c10d", "--rdzv-endpoint", request["rdzv_endpoint"],
              "--rdzv-id", request["rdzv_id"]]  # fmt: skip
    if "is_host" in given.rdzv_conf:
        return before, []
    # Said, not guessed: any of this machine's agents would take 127.0.0.1 for itself.
    conf = ",".join(filter(None, [given.rdzv_conf, f"is_host={int(request['rdzv_host'])}"]))
    return before, ["--rdzv-conf", conf]


def _ranks(words: str) -> list[int] | None:
    return [int(word) for word in words.split(",")] if words else None


def _stay_on_loopback() -> None:
    interface = "lo0" if sys.platform == "darwin" else "lo"
    for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME"):
        os.environ.setdefault(name, interface)
    keep_to_loopback()


def _name_methods_fast() -> None:
    """Let the rendezvous find the names of its methods in the frames alone.

    It notes one several times a second, by way of `inspect.stack()`, which looks through all
    modules: a third of a second for the first time, where many are loaded as in a warm start.
    """
    from torch.distributed.elastic.rendezvous import dynamic_rendezvous

    if hasattr(dynamic_rendezvous, "get_method_name"):
        dynamic_rendezvous.get_method_name = method_name


def method_name(depth: int = 2) -> str:
    """What torch's function of this purpose says: who called the caller, for a depth of 2."""
    try:
        return sys._getframe(depth).f_code.co_name
    except ValueError:  # the stack is not so deep
        return "no_method_name"


def _endings(failures: dict) -> list[dict]:
    return [
        {"rank": rank, "pid": failure.pid, "code": failure.exitcode, "time": failure.timestamp}
        for rank, failure in failures.items()
    ]


if __name__ == "__main__":
    launch, parent = Path(sys.argv[1]), int(sys.argv[2])
    die_with_parent(parent)
    os.environ.update(json.loads((launch / "request.json").read_text())["environment"])
    sys.exit(main(launch))
