"""How a rank of a program ends: done, or with one sentence on what its user can change."""

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from rankbook.autopsy import recording
from rankbook.autopsy.waiting import hints
from rankbook.symptoms import pointer

USERS = (ValueError, OSError, ImportError)  # what a program raises for what its user can change
AGENTS_WORD = "TORCHELASTIC_ERROR_FILE"  # torchrun's agent reads there what a rank died of


@contextmanager
def exit_on_user_error(program: str, *kinds: type[Exception]) -> Iterator[None]:
    """End this rank in one sentence where what is inside raises, or another rank is gone.

    What waits long for others is told while it does (`rankbook.autopsy.waiting`).
    kinds: of errors that are the user's to mend; `USERS` if none are named. Others are a mistake
    of the program: rank 0 raises, and the others give it the time to.
    """
    try:
        with hints(program):
            yield
    except Exception as error:
        recording.failed(error)  # before any waiting: what is written last is where it failed
        if isinstance(error, kinds or USERS):
            fail(error, program)
        give_rank_0_time()
        if is_lost(error):
            exit_peer_lost(error, program)
        raise


def fail(error: Exception, program: str) -> NoReturn:
    """End this rank with status 2 and one sentence, which rank 0 says for all.

    torchrun ends the others as soon as one has ended, so they give rank 0 time to speak first.
    They speak themselves where it does not end: where the trouble is not rank 0's. A restart that
    fails of the same is silent: it has been said.
    """
    rank, sentence = os.environ.get("RANK", "0"), f"{error}"
    give_rank_0_time()
    if not said_before(sentence):
        say(program if rank == "0" else f"{program}, rank {rank}", sentence)
    tell_agent(sentence)
    os._exit(2)  # a rank with an open group would wait for the others in its clean-up


def is_lost(error: Exception) -> bool:
    """Whether it is what a collective raises when another rank has gone, or does not come."""
    import torch.distributed as dist  # slow: programs that end before have not loaded it

    return isinstance(error, dist.DistError) or (
        isinstance(error, RuntimeError) and "gloo" in str(error)
    )


def exit_peer_lost(error: Exception, program: str, when: str = "") -> NoReturn:
    """End this rank where another has gone: in one sentence, with a status that asks for a restart.

    when: "in step 4". No clean-up: it would wait for ranks that are gone.
    """
    lost = " ".join(filter(None, ("lost another rank", when)))
    say(f"{program}, rank {os.environ.get('RANK', '0')}", f"{lost}: {why_lost(error)}")
    os._exit(1)


def why_lost(error: Exception) -> str:
    """The first sentence of a collective's error, without the place in torch's source."""
    return str(error).splitlines()[0].rpartition("] ")[2].split(". ")[0].rstrip(".")


def say(who: str, sentence: str) -> None:
    """`sentence` on standard error, and where the book has more on it."""
    print(f"{who}: {sentence}", file=sys.stderr, flush=True)
    if more := pointer(sentence):
        print(more, file=sys.stderr, flush=True)


def give_rank_0_time() -> None:
    """Return at once on rank 0; on others after seconds, first on the first of each node."""
    if os.environ.get("RANK", "0") != "0":
        time.sleep(5 if os.environ.get("LOCAL_RANK") == "0" else 7)


def said_before(sentence: str) -> bool:
    """Whether this rank ended with `sentence` before torchrun started it again.

    The agent keeps ``attempt_<restart>/<local rank>/error.json`` of each start until it ends.
    """
    here = Path(os.environ.get(AGENTS_WORD) or "none")
    attempt = here.parent.parent.name.removeprefix("attempt_")
    if not attempt.isdecimal():
        return False
    before = here.parents[1].with_name(f"attempt_{int(attempt) - 1}") / here.parent.name / here.name
    with suppress(OSError, ValueError, KeyError, TypeError):
        return json.loads(before.read_text("utf-8"))["message"]["message"] == sentence
    return False


def tell_agent(sentence: str) -> None:
    """Write TORCHELASTIC_ERROR_FILE, so that torchrun's report repeats the sentence.

    Source: https://docs.pytorch.org/docs/stable/elastic/errors.html
    """
    when = {"timestamp": str(int(time.time()))}
    if path := os.environ.get(AGENTS_WORD):
        with suppress(OSError):
            told = {"message": {"message": sentence, "extraInfo": when}}
            Path(path).write_text(json.dumps(told), encoding="utf-8")


def end(status: int = 0) -> NoReturn:
    """End this rank, whose work is done, without Python's own shutdown.

    A group that has not lost every reference when it is destroyed keeps its threads: importing
    ``torch._dynamo`` while it is there, as optimizers and DDP do, is enough (torch 2.13). Such a
    thread of gloo may let go of the tensors of the last collective while Python shuts down, cannot
    get the GIL any more, and aborts the rank: "terminate called without an active exception".
    """
    for worker in multiprocessing.active_children():  # a loader's
        worker.terminate()
        worker.join()
    recording.ended()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
