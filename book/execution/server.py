"""The process that forks one more for each page: ``server.py PARENT [warm]``.

With "warm" it has loaded before what pages load. A line of JSON on its standard input asks for a
page, one on its standard output says what came of it. It ends with its parent, or when its input
does, and everything below it as well.
"""

import json
import os
import selectors
import signal
import sys
import warnings
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[1])

from execution.leaving import adopt_orphans, end_all_below  # noqa: E402 - the path comes first
from rankbook.core.parent_death import die_with_parent  # noqa: E402


def main(parent: int, warm: bool) -> None:
    """Load, then serve until the input ends."""
    # not by SIGKILL: what pages have started in sessions of their own has only us to end it
    signal.signal(signal.SIGTERM, leave)
    die_with_parent(parent, signal.SIGTERM)
    os.setpgid(0, 0)  # a Ctrl-C is for the client, which then ends us
    adopt_orphans()
    from execution import kernel, page

    if warm:
        kernel.load()
    answers = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    try:
        serve(0, answers, page)
    finally:
        end_all_below()


def leave(*_) -> None:
    """End everything below this process, and this process."""
    end_all_below()
    os._exit(0)


def serve(requests: int, answers: int, page) -> None:
    """Fork a page for each line that comes on `requests`; write its outcome to `answers`."""
    waiting, partial = selectors.DefaultSelector(), b""
    waiting.register(requests, selectors.EVENT_READ)
    running: dict[int, tuple[int, dict, bytearray]] = {}
    while running or requests in waiting.get_map():
        for key, _ in waiting.select():
            came = os.read(key.fd, 1 << 16)
            if key.fd == requests:
                if not came:
                    return
                *lines, partial = (partial + came).split(b"\n")
                for line in lines:
                    request = json.loads(line)
                    result, pid = fork_page(request, page)
                    running[result] = (pid, request, bytearray())
                    waiting.register(result, selectors.EVENT_READ)
            elif came:
                running[key.fd][2].extend(came)
            else:
                pid, request, outcome = running.pop(key.fd)
                waiting.unregister(key.fd)
                os.close(key.fd)
                _, status = os.waitpid(pid, 0)
                facts = json.loads(outcome) if outcome else {"ended": status}
                line = json.dumps({"id": request["id"], "outcome": facts}) + "\n"
                os.write(answers, line.encode())


def fork_page(request: dict, page) -> tuple[int, int]:
    """A child that executes the page; (where its outcome can be read, its process id)."""
    result, end = os.pipe()
    server = os.getpid()
    with warnings.catch_warnings():
        # from Python 3.12 on it warns of any thread; `kernel.load` has seen that these expect forks
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(end)
        return result, pid
    try:
        die_with_parent(server)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        adopt_orphans()
        os.setsid()
        log = os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in ((0, nothing), (1, log), (2, log)):
            os.dup2(file, number)
        outcome = page.execute_page(
            Path(request["chapter"]),
            Path(request["executed"]),
            request["stall"],
            Path(request["turns"]),
            request["with_memory"],
        )
        text = json.dumps(outcome.as_dict()).encode()
        while text:
            text = text[os.write(end, text) :]
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), "warm" in sys.argv)
