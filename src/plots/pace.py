"""Throughput as it was measured, of schedules on two CPU ranks."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from plots.marks import key
from plots.tables import Table
from plots.theme import INK, QUIET, WIDTH, color, style


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
    high = 0.84 / len(counts)
    with style():
        figure, axes = plt.subplots(
            figsize=(WIDTH, 0.6 * len(schedules) + 1.1), layout="constrained"
        )
        for i, count in enumerate(counts):
            of_count = [row for row in rows if row["microbatches"] == count]
            places = [
                schedules.index(row["schedule"]) + (i - (len(counts) - 1) / 2) * high
                for row in of_count
            ]
            label = f"{count} microbatches"
            lengths = [row["median"] for row in of_count]
            axes.barh(places, lengths, high * 0.9, color=color(i), label=label)
            ends = [row["p10"] for row in of_count], [row["p90"] for row in of_count]
            axes.hlines(places, *ends, color=INK, lw=1)
        for row, dashes in zip(_unsplit(found), (":", "--"), strict=False):
            threads = f"{row['threads']} thread{'s' * (row['threads'] != '1')}"
            axes.axvline(row["median"], color=QUIET, ls=dashes, label=f"one process, {threads}")
        axes.set_yticks(range(len(schedules)), schedules)
        axes.set(xlabel="tokens per second", xlim=(0, None), ylim=(len(schedules) - 0.5, -0.5))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        lines = {str(line.get_label()): line for line in axes.lines}
        bars = {f"{count} microbatches": color(i) for i, count in enumerate(counts)}
        key(figure, {**bars, **lines}, columns=2)
    plt.close(figure)  # it is what the cell returns; left open, it would be shown twice
    return figure


def _unsplit(result: Mapping) -> list[Mapping]:
    return [row for row in result["rows"] if row["schedule"] == "unsplit"]
