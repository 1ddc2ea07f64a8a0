"""Throughput as it was measured: of schedules on two CPU ranks, beside one process."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rankbook.plots.tables import Table
from rankbook.plots.theme import INK, QUIET, color, style


def throughput(results: Iterable[Mapping]) -> Figure | Table:
    """Draw the tokens per second of each schedule on two CPU ranks, beside one process.

    results: `recorded("pipelines")`. The thin line on a bar goes from the 10th to the 90th
    percentile. Without a CPU result, a table that says so.
    """
    found = next((result for result in results if result["kind"] == "CPU"), None)
    if found is None:
        return Table(["where", "measured"], [["CPU", "not measured yet"]])
    rows = [row for row in found["rows"] if row["schedule"] != "unsplit"]
    schedules = list(dict.fromkeys(row["schedule"] for row in rows))
    counts = sorted({row["microbatches"] for row in rows})
    width = 0.8 / len(counts)
    with style():
        figure, axes = plt.subplots(figsize=(6.8, 3.3), layout="constrained")
        for i, count in enumerate(counts):
            of_count = [row for row in rows if row["microbatches"] == count]
            places = [
                schedules.index(row["schedule"]) + (i - (len(counts) - 1) / 2) * width
                for row in of_count
            ]
            heights = [row["median"] for row in of_count]
            label = f"{count} microbatches"
            axes.bar(places, heights, width * 0.92, color=color(i), label=label)
            ends = [row["p10"] for row in of_count], [row["p90"] for row in of_count]
            axes.vlines(places, *ends, color=INK, lw=0.8)
        for row, dashes in zip(_unsplit(found), (":", "--"), strict=False):
            threads = f"{row['threads']} thread{'s' * (row['threads'] != '1')}"
            label = f"one process, {threads}"
            axes.axhline(row["median"], color=QUIET, ls=dashes, lw=1.2, label=label)
        axes.set_xticks(range(len(schedules)), schedules, rotation=20, ha="right")
        axes.set(ylabel="tokens per second", ylim=(0, None))
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.set_title(f"{found['where']}, torch {found['libraries']['torch']}, {found['when']}")
        figure.legend(loc="outside lower center", ncols=3)
    plt.close(figure)  # it is what the cell returns; left open, it would be shown twice
    return figure


def _unsplit(result: Mapping) -> list[Mapping]:
    return [row for row in result["rows"] if row["schedule"] == "unsplit"]
