"""Cells that fail, each with its cause: what a reader must be told, and what not.

In most, rank 1 raises while rank 0 waits for it. ``until_left(1)``: until rank 1 has left the cell.
"""

from dataclasses import dataclass, field

from rankbook.live.failure.report import MISMATCH
from tests.live.report import (
    BLOCKED,
    CONSEQUENCE,
    IN_VAIN,
    THEN,
    blocked,
    left_waiting,
    raised,
    stopped,
)


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
NEVER = ["Timed out waiting 3600000ms", "after 3600000 ms", MISMATCH, IN_VAIN]


BOOM = raised(1, "ValueError: boom")


def raising(expression: str, text: str) -> Cell:
    """Rank 1 raises something of its own, whatever it reads like."""
    code = f"if rank == 1:\n    raise {expression}\ndist.barrier()"
    words = ["----> 3     raise", blocked(0, "barrier()", 4)]
    return Cell(code, raised(1, text), words, [CONSEQUENCE])


def everywhere(expression: str, text: str) -> Cell:
    """All ranks raise the same: nobody waited."""
    return Cell(f"raise {expression}", raised((0, 1), text), ["----> 2 raise"], [BLOCKED])


def waiting(code: str, call: str, line: int | None = None, before: str = "") -> Cell:
    """Rank 0 waits in `code` while rank 1 fails: in `call`, or one that begins so."""
    boom = "if rank == 1:\n    raise ValueError('boom')\n"
    words = ["raise ValueError('boom')", blocked(0, call, line)]
    return Cell(f"{before}{boom}{code}", BOOM, words, [CONSEQUENCE])


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
    "barrier": waiting("dist.barrier()", "barrier()", 4),
    "all_reduce": waiting("dist.all_reduce(torch.ones(2))", "all_reduce(float32 [2])", 4),
    "broadcast": waiting(
        "dist.broadcast(torch.ones(2), src=1)", "broadcast(float32 [2], src=1)", 4),
    "all_gather": waiting(
        "dist.all_gather([torch.ones(1), torch.ones(1)], torch.ones(1))", "all_gather("),
    "reduce_scatter": waiting(
        "dist.reduce_scatter_tensor(torch.ones(1), torch.ones(2))", "reduce_scatter_"),
    "all_to_all": waiting(
        "dist.all_to_all_single(torch.ones(2), torch.ones(2))", "all_to_all_single("),
    "objects": waiting("dist.all_gather_object([0, 0], 'x')",
                       "dist.all_gather_object([0, 0], 'x')", 4),
    "an object": waiting("dist.broadcast_object_list([0], src=1)", "broadcast_object_list("),
    "monitored_barrier": waiting("dist.monitored_barrier()", "dist.monitored_barrier()", 4),
    "recv": waiting("dist.recv(torch.ones(1), src=1)", "recv(float32 [1], src=1)", 4),
    "recv from anybody": waiting("dist.recv(torch.ones(1))", "recv(float32 [1])", 4),
    "a request": waiting("dist.irecv(torch.ones(1), src=1).wait()", "dist.irecv(torch.ones(1)"),
    "requests": waiting(
        "for r in dist.batch_isend_irecv([dist.P2POp(dist.irecv, torch.ones(1), 1)]):\n"
        "    r.wait()", "r.wait()", 5),
    "an asynchronous call": waiting(
        "work = dist.all_reduce(torch.ones(2), async_op=True)\nwork.wait()",
        "work.wait() for all_reduce(float32 [2])", 5),
    "a future": waiting(
        "work = dist.all_reduce(torch.ones(2), async_op=True)\nwork.get_future().wait()",
        "work.get_future().wait() for all_reduce(float32 [2])", 5),
    "a function of the reader's": waiting(
        "def average(t):\n    dist.all_reduce(t)\naverage(torch.ones(2))",
        "all_reduce(float32 [2])", 6),
    "new_group": waiting("dist.new_group([0, 1])", "dist.new_group([0, 1])", 4),
    "a key": waiting("store.get('nokey')", "store.get('nokey')", 5, STORE),
    "keys": waiting("store.wait(['nokey'])", "store.wait(['nokey'])", 5, STORE),
    "a thread": waiting(
        "t = threading.Thread(target=dist.barrier)\nt.start()\nt.join()",
        "barrier() in a thread", 7, "import threading\n"),
    "a pool": waiting(
        "with Pool(1) as pool:\n    pool.submit(dist.barrier).result()",
        "barrier() in a thread", 6,
        "from concurrent.futures import ThreadPoolExecutor as Pool\n"),
    "full_tensor": waiting(
        "d.full_tensor()", "all_gather(float32 [2]) of d.full_tensor()", 6, MESH),
    "an operation on a DTensor": waiting("d.sum().full_tensor()", "all_", before=MESH),
    "a functional collective": waiting(
        "x = fc.all_reduce(torch.ones(3), 'sum', dist.group.WORLD)\nx + 1",
        "all_reduce(float32 [3]) of x + 1", 6, FUNCTIONAL),
    "its wait": waiting(
        "fc.wait_tensor(fc.all_gather_tensor(torch.ones(3), 0, dist.group.WORLD))",
        "all_gather(float32 [3])", 5, FUNCTIONAL),
    "making DDP": waiting("DDP(torch.nn.Linear(2, 2))",
                          "all_gather(int64 [1]) of DDP(torch.nn.Linear(2, 2))", 5, DDP),
    "DDP's backward": waiting(
        "loss.backward()", "all_reduce(float32 [6]) of DDP's backward", 7, MODEL),
    "FSDP's forward": waiting("model(torch.ones(1, 2))", "all_gather", before=FULLY),
    "FSDP's backward": waiting(
        "loss.backward()", "", before=FULLY + "loss = model(torch.ones(1, 2)).sum()\n"),
    "a pipeline": waiting(
        "schedule.step(torch.ones(2, 2)) if rank == 0 else None", "", before=PIPE),
    "a distributed checkpoint": waiting(
        "dcp.save({'x': torch.ones(2)}, checkpoint_id='/tmp/rankbook-never')", "",
        before="import torch.distributed.checkpoint as dcp\n"),
    "await": waiting(
        "import asyncio\nawait asyncio.sleep(0)\ndist.barrier()", "barrier()", 6),
}  # fmt: skip

LOADER = """class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        {}
if rank == 1:
    list(torch.utils.data.DataLoader(Data(), num_workers=1))
dist.barrier()"""
BARRIER = blocked(0, "barrier()", 9)
WRAP = """try:
    if rank == 1:
        raise ValueError('boom')
    dist.all_reduce(torch.ones(2))
except RuntimeError as error:
    {}"""

CHAINS = {
    "a loader's worker raises": Cell(
        LOADER.format("raise ConnectionError('Connection reset by peer')"),
        raised(1, "ConnectionError: Caught ConnectionError in DataLoader worker process 0."),
        ["Connection reset by peer", BARRIER], [CONSEQUENCE]),
    "a loader's worker aborts": Cell(
        LOADER.format("import os; os.abort()"), raised(1, "RuntimeError: DataLoader worker"),
        ["Aborted", BARRIER], [CONSEQUENCE]),
    "a group of exceptions": Cell(
        "if rank == 1:\n    raise ExceptionGroup('two', [OSError('Broken pipe'), KeyError('b')])\n"
        "dist.barrier()", raised(1, "ExceptionGroup: two (2 sub-exceptions)"),
        ["Cell line 3", "OSError: Broken pipe", "KeyError: 'b'", blocked(0, "barrier()")]),
    "recursion": Cell(
        "def f(n):\n    return f(n + 1)\nif rank == 1:\n    f(0)\ndist.barrier()",
        raised(1, "RecursionError: maximum recursion depth exceeded"),
        [" more ...", blocked(0, "barrier()", 6)], [CONSEQUENCE]),
    "wrapped": Cell(
        WRAP.format("raise LookupError('no training') from error"),
        BOOM, [blocked(0, "all_reduce(float32 [2])", 5, "LookupError: no training")]),
    "wrapped without a word": Cell(
        WRAP.format("raise LookupError('no training') from None"), BOOM,
        [blocked(0, "all_reduce(float32 [2])", 5, "LookupError: no training")]),
    "a group with what was suffered": Cell(
        WRAP.format("raise ExceptionGroup('all', [error])"), BOOM,
        [f"{THEN}ExceptionGroup: all (1 sub-exception)"]),
    "a group with one of its own": Cell(
        WRAP.format("raise ExceptionGroup('all', [error, KeyError('mine')]) from None"),
        BOOM, [raised(0, "ExceptionGroup: all (2 sub-exceptions)")]),
    "raised again": Cell(
        WRAP.format("raise error"), BOOM, [blocked(0, "all_reduce(float32 [2])", 5)], [THEN]),
    "passed over": Cell(
        WRAP.format("print('goes on')"), BOOM, [], [raised(0, "")]),
    "passed over, then a mistake": Cell(
        WRAP.format("pass") + "\n[][rank]", BOOM,
        [raised(0, "IndexError: list index out of range")]),
    "the text of an exception raises": Cell(
        "class Odd(Exception):\n    def __str__(self):\n        raise TypeError('no')\n"
        "if rank == 1:\n    raise Odd\ndist.barrier()",
        raised(1, "Odd: <its text could not be made: __str__ raised TypeError>"),
        [blocked(0, "barrier()", 7)]),
    "exit()": Cell(
        "if rank == 1:\n    exit()\ndist.barrier()", raised(1, "SystemExit"),
        [blocked(0, "barrier()", 4)]),
    "a mistake in a collective": Cell(
        "dist.all_reduce(rank)", raised((0, 1), "TypeError"), ["dist.all_reduce(rank)"], [BLOCKED]),
    "a mistake in a collective, in native code": Cell(
        "dist.broadcast(torch.ones(2).to_sparse(), 0)", raised((0, 1), ""), [], [CONSEQUENCE]),
    "a mistake in backward": Cell(
        "torch.ones(2).sum().backward()", raised((0, 1), "RuntimeError: element 0 of tensors does"),
        [], [CONSEQUENCE]),
    "both fail, each by itself": Cell(
        "raise ValueError('a') if rank == 0 else KeyError('b')", "rank ",
        [raised(0, "ValueError: a"), raised(1, "KeyError: 'b'")], [CONSEQUENCE]),
    "nobody came": Cell(
        "from datetime import timedelta\n"
        "if rank == 0:\n    until_left(1)\n"
        "    dist.monitored_barrier(timeout=timedelta(seconds=1))",
        left_waiting(1, 0, "dist.monitored_barrier(timeout=timedelta(seconds=1))", 5),
        ["RuntimeError: [Rank 0]: Rank 1 failed to pass"]),
    "one skips a call": Cell(
        "from datetime import timedelta\npair = dist.new_group([0, 1])\n"
        "if rank == 0:\n    until_left(1)\n"
        "    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=1), pair)\n"
        "    dist.all_reduce(torch.ones(4), group=pair)",
        left_waiting(1, 0, "all_reduce(float32 [4])", 7),
        [stopped(0, "all_reduce(float32 [4])", 7, "RuntimeError: Timed out ...")]),
    "a syntax error": Cell("x = = 1", raised((0, 1), "SyntaxError: invalid syntax"), [], [BLOCKED]),
    "a warning as an error": raising("UserWarning('Aborted')", "UserWarning: Aborted"),
}  # fmt: skip

PAIR = "pair = dist.new_group([0, 1])\n"
THREE = {
    "two raise, one waits": Cell(
        "if rank:\n    raise ConnectionError('Broken pipe')\ndist.barrier()",
        raised((1, 2), "ConnectionError: Broken pipe"), [blocked(0, "barrier()")]),
    "a chain of waits": Cell(
        "if rank == 2:\n    raise ValueError('aborted')\ndist.recv(torch.ones(1), src=rank + 1)",
        raised(2, "ValueError: aborted"),
        [blocked(0, "recv(float32 [1], src=1)", 4), blocked(1, "recv(float32 [1], src=2)", 4)],
        [CONSEQUENCE]),
    "a group of some": Cell(
        PAIR + "if rank == 1:\n    raise ValueError('boom')\n"
        "if rank == 0:\n    dist.all_reduce(torch.ones(2), group=pair)",
        BOOM, [blocked(0, "all_reduce(float32 [2])", 6)], [blocked(2, "")]),
    "different waits": Cell(
        "if rank == 1:\n    raise OSError('writev')\n"
        "dist.barrier() if rank == 2 else dist.recv(torch.ones(1), src=1)",
        raised(1, "OSError: writev"),
        [blocked(0, "recv(float32 [1], src=1)", 4), blocked(2, "barrier()", 4)]),
    "all raise the words of gloo": Cell(
        "raise RuntimeError('Connection closed by peer')",
        raised((0, 1, 2), "RuntimeError: Connection closed by peer"), [], [BLOCKED, CONSEQUENCE]),
}  # fmt: skip
