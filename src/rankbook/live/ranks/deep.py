"""Tracebacks that IPython does not do well: of a thousand frames, and of groups of exceptions.

Of an endless recursion it would format every frame, which takes a minute, and nobody reads them.
"""

import traceback
from types import TracebackType

from rankbook.live.failure.frames import DEEP
from rankbook.live.screen.readable import readable

LEFT = 10  # at either end of what is folded


def fold(error: BaseException) -> int:
    """Leave out the middle of deep tracebacks of `error` and its causes; return its own depth.

    Also for those who show it again, or store it: the exception itself is changed.
    """
    depth = len(_steps(error))
    for each in _contexts(error):
        each.__traceback__ = _folded(_steps(each))
    return depth


def _steps(error: BaseException) -> list[TracebackType]:
    steps, trace = [], error.__traceback__
    while trace is not None:
        steps.append(trace)
        trace = trace.tb_next
    return steps


def _folded(steps: list[TracebackType]) -> TracebackType | None:
    """The first and the last entries of a deep traceback; others stay as they are."""
    if len(steps) <= DEEP:
        return steps[0] if steps else None
    following = steps[-LEFT]
    for step in reversed(steps[:LEFT]):
        following = TracebackType(following, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return following


def has_parts(error: BaseException) -> bool:
    """Whether `error` is an ExceptionGroup, or came up while one was handled."""
    return any(isinstance(e, BaseExceptionGroup) for e in _contexts(error))


def with_parts(error: BaseException, namespace: dict) -> list[str]:
    """The traceback as Python writes it, with every part; `namespace`: the cell's."""
    step = error.__traceback__
    while step is not None and step.tb_frame.f_globals is not namespace:
        step = step.tb_next
    text = "".join(traceback.format_exception(type(error), error, step))
    return [readable(text, step.tb_frame.f_code.co_filename if step else "")]


def _contexts(error: BaseException) -> list[BaseException]:
    found, left = {}, error
    while left is not None and id(left) not in found:
        found[id(left)] = left
        left = left.__context__
    return list(found.values())
