"""Cells that fail, each with its cause: what a reader must be told, and what not.

In most, rank 1 raises while rank 0 waits for it. ``until_left(1)``: until rank 1 has left the cell.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cell:
    """A cell and the report on it.

    code: below ``%%ranks``, so its first line is line 2. head: how the report begins. words: what
    is in it, too. never: what is not, besides `NEVER`.
    """

    code: str
    head: str
    words: list[str] = field(default_factory=list)
    never: list[str] = field(default_factory=list)


# What tells that a wait was not recognised, or that the judge gave up.
NEVER = ["Timed out waiting 3600000ms", "after 3600000 ms", "mismatch", "in vain"]


def raising(expression: str, text: str) -> Cell:
    """Rank 1 raises something of its own, whatever it reads like."""
    code = f"if rank == 1:\n    raise {expression}\ndist.barrier()"
    words = ["----> 3     raise", "rank 0 was blocked in barrier(), cell line 4"]
    return Cell(code, f"rank 1 raised {text}", words, ["a consequence"])


def everywhere(expression: str, text: str) -> Cell:
    """All ranks raise the same: nobody waited."""
    return Cell(f"raise {expression}", f"[0-1] raised {text}", ["----> 2 raise"], ["blocked"])


def waiting(code: str, blocked: str, before: str = "") -> Cell:
    """Rank 0 waits in `code` while rank 1 fails; `blocked`: what is said of it."""
    boom = "if rank == 1:\n    raise ValueError('boom')\n"
    words = ["raise ValueError('boom')", f"rank 0 was blocked in {blocked}"]
    return Cell(f"{before}{boom}{code}", "rank 1 raised ValueError: boom", words, ["a consequence"])


RAISED = {
    "a failed download": raising(
        "ConnectionError(('Connection aborted.', ConnectionResetError(104, 'Connection reset by "
        "peer')))", "ConnectionError: ('Connection aborted.', ConnectionResetError(104"),
    "aborted": raising("ValueError('config aborted')", "ValueError: config aborted"),
    "a pipe": raising("BrokenPipeError(32, 'Broken pipe')", "BrokenPipeError: [Errno 32] Broken"),
    "a disk": raising("OSError('Read error')", "OSError: Read error"),
    "a scheduler": raising("TimeoutError('Timed out waiting')", "TimeoutError: Timed out waiting"),
    "a rank in words": raising("RuntimeError('[Rank 1] x')", "RuntimeError: [Rank 1] x"),
    "an interrupt that nobody gave": raising("KeyboardInterrupt", "KeyboardInterrupt"),
    "an interrupt in words": raising("KeyboardInterrupt('stop')", "KeyboardInterrupt: stop"),
    "the words of gloo": raising(
        "RuntimeError('[gloo/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1')",
        "RuntimeError: [gloo/tcp/pair.cc:534] Connection closed by peer"),
    "gloo's time-out": raising(
        "RuntimeError('Timed out waiting 5000ms for recv operation to complete')",
        "RuntimeError: Timed out waiting 5000ms for recv"),
    "a wait in words": raising(
        "RuntimeError('wait() timed out')", "RuntimeError: wait() timed out"),
    "the class of NCCL": raising(
        "dist.DistBackendError('ncclRemoteError')", "DistBackendError: ncclRemoteError"),
    "the class of a store": raising(
        "dist.DistStoreError('Wait timeout')", "DistStoreError: Wait timeout"),
    "the name of our own class": raising(
        "type('CollectiveMismatch', (RuntimeError,), {})('mine')", "CollectiveMismatch: mine"),
    "a socket": raising("ConnectionResetError('Socket closed')", "ConnectionResetError: Socket"),
    "an exit": raising("SystemExit('Aborted')", "SystemExit: Aborted"),
    "no text": raising("AssertionError", "AssertionError"),
    "out of memory": raising("MemoryError('writev')", "MemoryError: writev"),
    "from another": raising(
        "LookupError('b') from ConnectionError('Broken pipe')", "LookupError: b"),
    "all: a download": everywhere("ConnectionError('Connection reset by peer')", "ConnectionError"),
    "all: the words of gloo": everywhere(
        "RuntimeError('Connection closed by peer')", "RuntimeError: Connection closed by peer"),
    "all: an interrupt": everywhere("KeyboardInterrupt", "KeyboardInterrupt"),
}  # fmt: skip

MESH = "from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh\n"
MESH += "d = distribute_tensor(torch.ones(4), init_device_mesh('cpu', (2,)), [Shard(0)])\n"
DDP = "from torch.nn.parallel import DistributedDataParallel as DDP\n"
MODEL = DDP + "model = DDP(torch.nn.Linear(2, 2))\nloss = model(torch.ones(1, 2)).sum()\n"
FULLY = "from torch.distributed.fsdp import fully_shard\nmodel = torch.nn.Linear(2, 2)\n"
FULLY += "fully_shard(model)\n"
PIPE = """from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
stage = PipelineStage(torch.nn.Linear(2, 2), rank, 2, torch.device('cpu'))
schedule = ScheduleGPipe(stage, 2, loss_fn=torch.nn.functional.mse_loss)
"""
FUNCTIONAL = "import torch.distributed._functional_collectives as fc\n"
STORE = "store = dist.distributed_c10d._get_default_store()\n"

WAITS = {
    "barrier": waiting("dist.barrier()", "barrier(), cell line 4"),
    "all_reduce": waiting("dist.all_reduce(torch.ones(2))", "all_reduce(float32 [2]), cell line 4"),
    "broadcast": waiting(
        "dist.broadcast(torch.ones(2), src=1)", "broadcast(float32 [2], src=1), cell line 4"),
    "all_gather": waiting(
        "dist.all_gather([torch.ones(1), torch.ones(1)], torch.ones(1))", "all_gather("),
    "reduce_scatter": waiting(
        "dist.reduce_scatter_tensor(torch.ones(1), torch.ones(2))", "reduce_scatter_"),
    "all_to_all": waiting(
        "dist.all_to_all_single(torch.ones(2), torch.ones(2))", "all_to_all_single("),
    "objects": waiting("dist.all_gather_object([0, 0], 'x')",
                       "dist.all_gather_object([0, 0], 'x'), cell line 4"),
    "an object": waiting("dist.broadcast_object_list([0], src=1)", "broadcast_object_list("),
    "monitored_barrier": waiting("dist.monitored_barrier()", "dist.monitored_barrier(), cell line"),
    "recv": waiting("dist.recv(torch.ones(1), src=1)", "recv(float32 [1], src=1), cell line 4"),
    "recv from anybody": waiting("dist.recv(torch.ones(1))", "recv(float32 [1]), cell line 4"),
    "a request": waiting("dist.irecv(torch.ones(1), src=1).wait()", "dist.irecv(torch.ones(1)"),
    "requests": waiting(
        "for r in dist.batch_isend_irecv([dist.P2POp(dist.irecv, torch.ones(1), 1)]):\n"
        "    r.wait()", "r.wait(), cell line 5"),
    "an asynchronous call": waiting(
        "work = dist.all_reduce(torch.ones(2), async_op=True)\nwork.wait()",
        "work.wait() for all_reduce(float32 [2]), cell line 5"),
    "a future": waiting(
        "work = dist.all_reduce(torch.ones(2), async_op=True)\nwork.get_future().wait()",
        "work.get_future().wait() for all_reduce(float32 [2]), cell line 5"),
    "a function of the reader's": waiting(
        "def average(t):\n    dist.all_reduce(t)\naverage(torch.ones(2))",
        "all_reduce(float32 [2]), cell line 6"),
    "new_group": waiting("dist.new_group([0, 1])", "dist.new_group([0, 1]), cell line 4"),
    "a key": waiting("store.get('nokey')", "store.get('nokey'), cell line 5", STORE),
    "keys": waiting("store.wait(['nokey'])", "store.wait(['nokey']), cell line 5", STORE),
    "a thread": waiting(
        "t = threading.Thread(target=dist.barrier)\nt.start()\nt.join()",
        "barrier() in a thread, cell line 7", "import threading\n"),
    "a pool": waiting(
        "with Pool(1) as pool:\n    pool.submit(dist.barrier).result()",
        "barrier() in a thread, cell line 6",
        "from concurrent.futures import ThreadPoolExecutor as Pool\n"),
    "full_tensor": waiting(
        "d.full_tensor()", "all_gather(float32 [2]) of d.full_tensor(), cell line 6", MESH),
    "an operation on a DTensor": waiting("d.sum().full_tensor()", "all_", MESH),
    "a functional collective": waiting(
        "x = fc.all_reduce(torch.ones(3), 'sum', dist.group.WORLD)\nx + 1",
        "all_reduce(float32 [3]) of x + 1, cell line 6", FUNCTIONAL),
    "its wait": waiting(
        "fc.wait_tensor(fc.all_gather_tensor(torch.ones(3), 0, dist.group.WORLD))",
        "all_gather(float32 [3]), cell line 5", FUNCTIONAL),
    "making DDP": waiting("DDP(torch.nn.Linear(2, 2))",
                          "all_gather(int64 [1]) of DDP(torch.nn.Linear(2, 2)), cell line 5", DDP),
    "DDP's backward": waiting(
        "loss.backward()", "all_reduce(float32 [6]) of DDP's backward, cell line 7", MODEL),
    "FSDP's forward": waiting("model(torch.ones(1, 2))", "all_gather", FULLY),
    "FSDP's backward": waiting(
        "loss.backward()", "", FULLY + "loss = model(torch.ones(1, 2)).sum()\n"),
    "a pipeline": waiting(
        "schedule.step(torch.ones(2, 2)) if rank == 0 else None", "", PIPE),
    "a distributed checkpoint": waiting(
        "dcp.save({'x': torch.ones(2)}, checkpoint_id='/tmp/rankbook-never')", "",
        "import torch.distributed.checkpoint as dcp\n"),
    "await": waiting(
        "import asyncio\nawait asyncio.sleep(0)\ndist.barrier()", "barrier(), cell line 6"),
}  # fmt: skip

LOADER = """class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        {}
if rank == 1:
    list(torch.utils.data.DataLoader(Data(), num_workers=1))
dist.barrier()"""
BARRIER = "rank 0 was blocked in barrier(), cell line 9"
WRAP = """try:
    if rank == 1:
        raise ValueError('boom')
    dist.all_reduce(torch.ones(2))
except RuntimeError as error:
    {}"""

CHAINS = {
    "a loader's worker raises": Cell(
        LOADER.format("raise ConnectionError('Connection reset by peer')"),
        "rank 1 raised ConnectionError: Caught ConnectionError in DataLoader worker process 0.",
        ["Connection reset by peer", BARRIER], ["a consequence"]),
    "a loader's worker aborts": Cell(
        LOADER.format("import os; os.abort()"), "rank 1 raised RuntimeError: DataLoader worker",
        ["Aborted", BARRIER], ["a consequence"]),
    "a group of exceptions": Cell(
        "if rank == 1:\n    raise ExceptionGroup('two', [OSError('Broken pipe'), KeyError('b')])\n"
        "dist.barrier()", "rank 1 raised ExceptionGroup: two (2 sub-exceptions)",
        ["Cell line 3", "OSError: Broken pipe", "KeyError: 'b'",
         "rank 0 was blocked in barrier()"]),
    "recursion": Cell(
        "def f(n):\n    return f(n + 1)\nif rank == 1:\n    f(0)\ndist.barrier()",
        "rank 1 raised RecursionError: maximum recursion depth exceeded",
        [" more ...", "rank 0 was blocked in barrier(), cell line 6"], ["a consequence"]),
    "wrapped": Cell(
        WRAP.format("raise LookupError('no training') from error"),
        "rank 1 raised ValueError: boom",
        ["rank 0 was blocked in all_reduce(float32 [2]), cell line 5, "
         "then raised LookupError: no training"]),
    "wrapped without a word": Cell(
        WRAP.format("raise LookupError('no training') from None"), "rank 1 raised ValueError: boom",
        ["rank 0 was blocked in all_reduce(float32 [2]), cell line 5, "
         "then raised LookupError: no training"]),
    "a group with what was suffered": Cell(
        WRAP.format("raise ExceptionGroup('all', [error])"), "rank 1 raised ValueError: boom",
        ["then raised ExceptionGroup: all (1 sub-exception)"]),
    "a group with one of its own": Cell(
        WRAP.format("raise ExceptionGroup('all', [error, KeyError('mine')]) from None"),
        "rank 1 raised ValueError: boom", ["rank 0 raised ExceptionGroup: all (2 sub-exceptions)"]),
    "raised again": Cell(
        WRAP.format("raise error"), "rank 1 raised ValueError: boom",
        ["rank 0 was blocked in all_reduce(float32 [2]), cell line 5"], ["then raised"]),
    "passed over": Cell(
        WRAP.format("print('goes on')"), "rank 1 raised ValueError: boom", [], ["rank 0 raised"]),
    "passed over, then a mistake": Cell(
        WRAP.format("pass") + "\n[][rank]", "rank 1 raised ValueError: boom",
        ["rank 0 raised IndexError: list index out of range"]),
    "the text of an exception raises": Cell(
        "class Odd(Exception):\n    def __str__(self):\n        raise TypeError('no')\n"
        "if rank == 1:\n    raise Odd\ndist.barrier()",
        "rank 1 raised Odd: <its text could not be made: __str__ raised TypeError>",
        ["rank 0 was blocked in barrier(), cell line 7"]),
    "exit()": Cell(
        "if rank == 1:\n    exit()\ndist.barrier()", "rank 1 raised SystemExit",
        ["rank 0 was blocked in barrier(), cell line 4"]),
    "a mistake in a collective": Cell(
        "dist.all_reduce(rank)" , "[0-1] raised TypeError", ["dist.all_reduce(rank)"], ["blocked"]),
    "a mistake in a collective, in native code": Cell(
        "dist.broadcast(torch.ones(2).to_sparse(), 0)", "[0-1] raised ", [], ["a consequence"]),
    "a mistake in backward": Cell(
        "torch.ones(2).sum().backward()", "[0-1] raised RuntimeError: element 0 of tensors does",
        [], ["a consequence"]),
    "both fail, each by itself": Cell(
        "raise ValueError('a') if rank == 0 else KeyError('b')", "rank ",
        ["rank 0 raised ValueError: a", "rank 1 raised KeyError: 'b'"], ["a consequence"]),
    "nobody came": Cell(
        "from datetime import timedelta\n"
        "if rank == 0:\n    until_left(1)\n"
        "    dist.monitored_barrier(timeout=timedelta(seconds=1))",
        "rank 1 had finished the cell while rank 0 waited in "
        "dist.monitored_barrier(timeout=timedelta(seconds=1)), cell line 5",
        ["RuntimeError: [Rank 0]: Rank 1 failed to pass"]),
    "one skips a call": Cell(
        "from datetime import timedelta\npair = dist.new_group([0, 1])\n"
        "if rank == 0:\n    until_left(1)\n"
        "    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=1), pair)\n"
        "    dist.all_reduce(torch.ones(4), group=pair)",
        "rank 1 had finished the cell while rank 0 waited in all_reduce(float32 [4]), cell line 7",
        ["rank 0 stopped in all_reduce(float32 [4]), cell line 7: RuntimeError: Timed out "]),
    "a syntax error": Cell("x = = 1", "[0-1] raised SyntaxError: invalid syntax", [], ["blocked"]),
    "a warning as an error": raising("UserWarning('Aborted')", "UserWarning: Aborted"),
}  # fmt: skip

PAIR = "pair = dist.new_group([0, 1])\n"
THREE = {
    "two raise, one waits": Cell(
        "if rank:\n    raise ConnectionError('Broken pipe')\ndist.barrier()",
        "[1-2] raised ConnectionError: Broken pipe", ["rank 0 was blocked in barrier()"]),
    "a chain of waits": Cell(
        "if rank == 2:\n    raise ValueError('aborted')\ndist.recv(torch.ones(1), src=rank + 1)",
        "rank 2 raised ValueError: aborted",
        ["rank 0 was blocked in recv(float32 [1], src=1), cell line 4",
         "rank 1 was blocked in recv(float32 [1], src=2), cell line 4"], ["a consequence"]),
    "a group of some": Cell(
        PAIR + "if rank == 1:\n    raise ValueError('boom')\n"
        "if rank == 0:\n    dist.all_reduce(torch.ones(2), group=pair)",
        "rank 1 raised ValueError: boom",
        ["rank 0 was blocked in all_reduce(float32 [2]), cell line 6"], ["rank 2 was"]),
    "different waits": Cell(
        "if rank == 1:\n    raise OSError('writev')\n"
        "dist.barrier() if rank == 2 else dist.recv(torch.ones(1), src=1)",
        "rank 1 raised OSError: writev",
        ["rank 0 was blocked in recv(float32 [1], src=1), cell line 4",
         "rank 2 was blocked in barrier(), cell line 4"]),
    "all raise the words of gloo": Cell(
        "raise RuntimeError('Connection closed by peer')",
        "[0-2] raised RuntimeError: Connection closed by peer", [], ["blocked", "a consequence"]),
}  # fmt: skip
