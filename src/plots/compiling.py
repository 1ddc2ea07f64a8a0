"""torch.compile call by call: which calls made a graph, and what each of them took."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from plots.marks import key
from plots.theme import QUIET, SMALLEST, WIDTH, color, style

MADE, QUICK = color(1), color(0)


def compiling_calls(ways: Mapping[str, Iterable[tuple[float, int]]]) -> Figure:
    """Draw a bar for each call, a panel for each way of compiling, on one logarithmic scale.

    ways: name to (seconds, graphs made in it) of each call, in order. Calls that made a graph have
    a colour of their own; above a panel stand the graphs and the seconds of all its calls. Raises
    ValueError without a call.
    """
    panels_of = {name: list(calls) for name, calls in ways.items()}
    if not panels_of or not all(panels_of.values()):
        raise ValueError("compiling_calls: no calls; give (seconds, graphs) for each of them")
    with style():
        figure, panels = plt.subplots(
            len(panels_of), sharex=True, sharey=True, squeeze=False,
            figsize=(WIDTH, 1.1 * len(panels_of) + 1.0), layout="constrained",
        )  # fmt: skip
        for axes, (name, calls) in zip(panels[:, 0], panels_of.items(), strict=True):
            numbers, shades = range(1, len(calls) + 1), [MADE if n else QUICK for _, n in calls]
            axes.bar(numbers, [1e3 * seconds for seconds, _ in calls], 0.8, color=shades)
            axes.set(yscale="log", xticks=numbers)
            axes.yaxis.set_major_formatter("{x:g}")
            made, took = sum(n for _, n in calls), sum(seconds for seconds, _ in calls)
            graphs = "graph" if made == 1 else "graphs"
            axes.set_title(f"{name}: {made} {graphs}, {took * 1e3:,.0f} ms in all", loc="left")
        panels[-1, 0].set_xlabel("call, each with another length")
        figure.supylabel("milliseconds", size=SMALLEST, color=QUIET)
        key(figure, {"made a graph": MADE, "made none": QUICK})
    return figure
