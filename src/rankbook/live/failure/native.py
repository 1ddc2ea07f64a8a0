"""Whether an exception came out of the process group, or out of the reader's code.

What waits for other ranks is native code: gloo, NCCL, a store. So an exception that comes from
them was raised below the innermost frame of Python, and that frame is in a call of
torch.distributed, or calls a method of one of its objects. A ``raise`` in Python is never theirs.
Works from frames alone; does not load torch.
"""

import dis
import linecache
import re
import time
from types import FrameType

# What torch's dispatcher calls in native code for collectives that are operators.
OPERATORS = ("_c10d_functional", "c10d", "_dtensor")
WAITS = re.compile(r"\b(wait|wait_tensor)\(|store\(\)\.(get|wait)\(")
METHOD = re.compile(r"([A-Za-z_][\w.]*)\.(\w+)\(")
NATIVE = ("torch.distributed.distributed_c10d", "torch._C._distributed_c10d")
SOURCES = ("/torch/distributed/", "/torch/nn/parallel/", "/torch/futures/")


def waits_in(frame: FrameType, lasti: int, line: int) -> str:
    """The call of torch.distributed that `frame` is in natively, at `lasti`; "" if in none."""
    code = frame.f_code
    if dis.opname[code.co_code[lasti]] in ("RAISE_VARARGS", "RERAISE"):
        return ""
    if code.co_filename.endswith("/torch/_ops.py"):
        space, _, name = str(frame.f_locals.get("self", "")).partition(".")
        return name.partition(".")[0] if space.startswith(OPERATORS) else ""
    if code.co_name == "_engine_run_backward":
        return "backward"
    if any(part in code.co_filename for part in SOURCES):
        return code.co_name
    return _method(frame, linecache.getline(code.co_filename, line, frame.f_globals))


def _method(frame: FrameType, source: str) -> str:
    """The method of a request, a store or a group that a line calls: ``wait``, ``get``."""
    for path, name in METHOD.findall(source):
        if _is_native(_value(frame, path.split("."))):
            return name
    return "wait" if WAITS.search(source) else ""  # of an object that no name stands for


def _value(frame: FrameType, names: list[str]):
    """The object that a dotted name stands for; runs no code of the reader's to find it."""
    first, *rest = names
    value = frame.f_locals.get(first, frame.f_globals.get(first))
    for name in rest:
        value = getattr(value, "__dict__", {}).get(name)
    return value


def _is_native(value) -> bool:
    return any(cls.__module__ in NATIVE for cls in type(value).__mro__)


def evidence(error: BaseException) -> dict:
    """What the frames of `error` tell of its origin: `inside`, `root` and `time` of a `Raised`.

    As it comes in a message: `Raised.of` makes the judge's model of it.
    """
    root = _root(error)
    found: dict = {"inside": _inside(error), "root": None, "time": time.time()}
    if root is not None and root is not error:
        name, text = type(root).__name__, text_of(root)
        found["root"] = {"kind": name, "message": text, "inside": _inside(root)}
    return found


def text_of(error: BaseException) -> str:
    """`str(error)`, whatever the reader's class does there."""
    try:
        return str(error)
    except Exception as trouble:
        return f"<its text could not be made: __str__ raised {type(trouble).__name__}>"


def printable(error: BaseException) -> BaseException:
    """`error`, or what stands in for one whose `str` raises: of the same name, with its frames."""
    try:
        str(error)
    except Exception:
        kind = type(type(error).__name__, (Exception,), {})
        return kind(text_of(error)).with_traceback(error.__traceback__)
    return error


def _inside(error: BaseException) -> str:
    """The call of torch.distributed that raised `error` natively; "" if Python code raised it."""
    step = error.__traceback__
    if step is None:
        return ""
    while step.tb_next is not None:
        step = step.tb_next
    return waits_in(step.tb_frame, step.tb_lasti, step.tb_lineno)


def _root(error: BaseException) -> BaseException | None:
    """What the group, or an interrupt, raised in `error` or on the way to it; None if neither.

    An ExceptionGroup has one if all its parts have: a part of the reader's own is a cause.
    """
    left, seen = [error], set()
    while left:
        error = left.pop(0)
        if id(error) in seen:
            continue
        seen.add(id(error))
        if isinstance(error, KeyboardInterrupt) or _inside(error):
            return error
        if isinstance(error, BaseExceptionGroup):
            roots = [_root(part) for part in error.exceptions]
            if all(roots):
                return roots[0]
            continue
        left += [e for e in (error.__cause__, error.__context__) if e is not None]
    return None
