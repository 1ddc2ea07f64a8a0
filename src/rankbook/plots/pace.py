"""Throughput as it was measured: of schedules on two CPU ranks, and of one GPU."""

from collections.abc import Iterable, Mapping

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from rankbook.plots.tables import Table
from rankbook.plots.theme import INK, QUIET, color, style

ORIGINAL_MS = 699  # a batch of 20 rows in each of two pipelines, as its log says after the warm-up


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


def batch_times(results: Iterable[Mapping]) -> Table:
    """Milliseconds for a training step of the original's model, beside what the original logged.

    results: `recorded("pipelines")`. A row says so where there is no GPU result.
    """
    head = ["where", "numbers", "torch.compile", "rows x tokens", "ms", "tokens/s", "measured"]
    logged = f"{ORIGINAL_MS}", f"{40 * 35 * 1000 / ORIGINAL_MS:,.0f}"
    rows = [["the original, 4 GPUs", "float32", "no", "40 x 35", *logged, "in its printed log"]]
    found = [result for result in results if result["kind"] == "GPU"]
    for result in found:
        for row in result["rows"]:
            rows.append(
                [
                    f"{result['where']}, torch {result['libraries']['torch']}",
                    row["numbers"],
                    row["torch.compile"],
                    row["rows x tokens"],
                    f"{row['median']:,.1f}",
                    f"{row['tokens/s']:,}" + _share(row),
                    result["when"],
                ]
            )
    if not found:
        rows.append(["1 GPU", "", "", "", "", "", "not measured yet"])
    return Table(head, rows)


def _unsplit(result: Mapping) -> list[Mapping]:
    return [row for row in result["rows"] if row["schedule"] == "unsplit"]


def _share(row: Mapping) -> str:
    return f" ({row['share of the peak']})" if "share of the peak" in row else ""
