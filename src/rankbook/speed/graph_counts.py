"""How often torch.compile works: graphs that it makes and compiles, and what it says meanwhile."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import torch

from rankbook.speed.compiling import graphs


@dataclass
class Watched:
    """`graphs` made since the watch began, and the `warnings` that torch would have printed."""

    before: int
    warnings: list[str] = field(default_factory=list)

    @property
    def graphs(self) -> int:
        return graphs() - self.before


@contextmanager
def watching() -> Iterator[Watched]:
    """Forget what was compiled so far, then watch TorchDynamo.

    Its warnings come into the list instead of onto stderr, without the time and the process that
    stand before each of their lines there.
    """
    torch.compiler.reset()
    watched = Watched(graphs())
    logger, listener = logging.getLogger("torch._dynamo"), _Listener(watched.warnings)
    usual = logger.handlers, logger.level, logger.propagate
    logger.handlers = cast(list[logging.Handler], [listener])
    logger.propagate = False
    logger.setLevel(logging.WARNING)
    try:
        yield watched
    finally:
        logger.handlers, level, logger.propagate = usual
        logger.setLevel(level)


class _Listener(logging.Handler):
    def __init__(self, lines: list[str]):
        super().__init__()
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


class CountingBackend:
    """A backend for torch.compile that counts the graphs it gets, and compiles nothing.

    `compiled` counts by kind: "forward" and "backward" of a step that trains, and "inference",
    forward without gradients. `news()` says what came since it was last asked. The graphs are
    those that a real compiler would get, and run as they are.
    Source: https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/torch.compiler_custom_backends.html
    """

    def __init__(self) -> None:
        from torch._dynamo.backends.common import aot_autograd

        self.compiled: Counter[str] = Counter()
        self._backend = aot_autograd(
            fw_compiler=self._count("forward"),
            bw_compiler=self._count("backward"),
            inference_compiler=self._count("inference"),
        )

    def __call__(self, graph: torch.fx.GraphModule, inputs: list) -> Callable:
        return self._backend(graph, inputs)

    def news(self) -> dict[str, int]:
        """Graphs since the last call, by kind; without those of which there were none."""
        found = dict(self.compiled)
        self.compiled.clear()
        return found

    def _count(self, kind: str) -> Callable[[torch.fx.GraphModule, Any], Callable]:
        from torch._functorch.aot_autograd import make_boxed_func

        def compile(graph: torch.fx.GraphModule, inputs: Any) -> Callable:
            self.compiled[kind] += 1
            return make_boxed_func(graph.forward)

        return compile
