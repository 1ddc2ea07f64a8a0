"""The table of the rivals for a README, in both languages, from book/results/rivals.json."""

import re

MARKS = "<!-- rivals -->", "<!-- /rivals -->"
WORDS = {
    "en": {
        "head": "fault of rank 1, or of both",
        "right": "right", "among others": "among others", "wrong": "wrong", "nothing": "nothing",
        "no end": "no end", "ends": "ends", "died": "kernel dies",
        "of": "{} of {}", "comma": ", ", "shown": "{word} {seen} s, ends {seconds} s",
        "failed": "cells that count as failed", "next": "next cells that work",
        "left": "processes left by a killed kernel",
        "faults": {},
        "legend": (
            "What the reader sees of the cause, and seconds until control is back: medians of "
            "{repeats}, each in a new kernel. *right*: the cause, and its rank, come first; *among "
            "others*: shown, but another cause is raised or stands first; *wrong*: only a victim's "
            "error or a time-out; *nothing*: no cause at all; *no end*: not within {limit:g} s. "
            "gloo's time-out is 10 s where one can set it, 30 min by default. `%%torchrun` and "
            "accelerate start new processes in each cell; after a death `%%ranks` wants `%ranks "
            "restart`, and says so. Measured on {when}: {where}, "
            "load {load}, {at_once} cases at a time, {versions}; `{command}`."
        ),
    },
    "zh": {
        "head": "rank 1（或两个 rank）的故障",
        "right": "正确", "among others": "混在其中", "wrong": "错误", "nothing": "没有",
        "no end": "不结束", "ends": "结束", "died": "kernel 退出",
        "of": "{1} 次中 {0} 次", "comma": "，", "shown": "{word} {seen} s，{seconds} s 结束",
        "failed": "算作失败的单元格", "next": "之后仍能用的单元格",
        "left": "kernel 被杀后留下的进程",
        "faults": {
            "segmentation fault": "段错误", "two shapes": "形状不同", "two orders": "次序不同",
            "rank 1 skips it": "rank 1 没有参加", "endless loop, stopped": "死循环，按停止",
            "recv and recv, stopped": "互相 recv，按停止",
        },
        "legend": (
            "读者看到的原因，以及多少秒后可以继续：{repeats} 次的中位数，每次都用新的 kernel。"
            "*正确*：原因和它所在的 rank 排在最前；*混在其中*：显示了原因，"
            "但抛出的或排在前面的是别的；*错误*：只有受害者的错误或超时；*没有*：看不到原因；"
            "*不结束*：{limit:g} s 之内没有结束。"
            "凡是能设置的，gloo 的超时都设为 10 s（默认 30 分钟）。`%%torchrun` 和 "
            "accelerate 的每个单元格都启动新进程；rank 死后，"
            "`%%ranks` 会提示运行 `%ranks restart`。测于 {when}：{where}，负载 {load}，"
            "同时运行 {at_once} 例，{versions}；`{command}`。"
        ),
    },
}  # fmt: skip


def table(result: dict, language: str) -> str:
    """Faults down, systems across, and what it all rests on."""
    words, rows = WORDS[language], result["rows"]
    systems = list(dict.fromkeys(row["system"] for row in rows))
    cells = {(row["fault"], row["system"]): _cell(row, words) for row in rows}
    lines = [[words["head"], *(f"`{s}`" if s.startswith("%") else s for s in systems)]]
    lines.append(["---"] * len(lines[0]))
    for fault in dict.fromkeys(row["fault"] for row in rows):
        name = words["faults"].get(fault, fault)
        lines.append([name, *(cells.get((fault, system), "–") for system in systems)])
    for key in ("failed", "next", "left"):
        lines.append([words[key], *(_sum(rows, system, key, words) for system in systems)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + f"\n\n{_legend(result, words)}"


def _counts(share: str) -> tuple[int, int]:
    part, _, whole = share.partition(" of ")
    return int(part), int(whole)


def _cell(row: dict, words: dict) -> str:
    """One fault under one system: "right, 0.4 s", "wrong 2 of 3, no end"."""
    agreed, repeats = _counts(row["agree"])
    word = words[row["sees"]]
    if agreed < repeats:
        word += f" {words['of'].format(agreed, repeats)}"
    if "median" not in row:
        return word + words["comma"] + words["no end"]
    seconds, seen = row["median"], row.get("seen", row["median"])
    if seconds - seen > 1:
        said = words["shown"].format(word=word, seen=f"{seen:.1f}", seconds=f"{seconds:.1f}")
    else:
        said = f"{word}{words['comma']}{seconds:.1f} s"
    ended, _ = _counts(row["ended"])
    if ended < repeats:
        said += f"{words['comma']}{words['no end']} {words['of'].format(repeats - ended, repeats)}"
    died, _ = _counts(row["died"])
    return said + (words["comma"] + words["died"] if died else "")


def _sum(rows: list[dict], system: str, key: str, words: dict) -> str:
    mine = [row[key] for row in rows if row["system"] == system]
    if key == "left":
        return str(max(mine)) if min(mine) == max(mine) else f"{min(mine)}–{max(mine)}"
    parts = [_counts(share) for share in mine]
    return words["of"].format(sum(part for part, _ in parts), sum(whole for _, whole in parts))


def _legend(result: dict, words: dict) -> str:
    load = result["load"]
    libraries = {"torch": result["libraries"]["torch"]}
    versions = [f"{name} {version}" for name, version in libraries.items()]
    versions += [required.replace("==", " ") for required in result["systems"].values()]
    counts = sorted({_counts(row["agree"])[1] for row in result["rows"]})
    return words["legend"].format(
        repeats="–".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))),
        limit=result["limit"],
        when=result["when"],
        where=result["where"],
        load=f"{load['lowest']:g}–{load['highest']:g}",
        at_once=result["cases at a time"],
        versions=words["comma"].join(versions),
        command=result["command"],
    )


def fill(page: str, result: dict, language: str) -> str:
    """The page with its table; a page without the marks as it is."""
    begin, end = MARKS
    return re.sub(
        rf"{begin}.*?{end}",
        lambda _: f"{begin}\n{table(result, language)}\n{end}",
        page,
        flags=re.DOTALL,
    )
