"""The Chinese texts keep to Chinese typography, and the rules find what breaks it."""

import re
from pathlib import Path

import pytest
import typography

ROOT = Path(__file__).resolve().parents[2]


def test_the_chinese_texts():
    assert len(list(typography.chinese_texts(ROOT))) > 500
    assert not typography.problems(ROOT)


def test_titles_are_chinese():
    """Those of pages hold a Chinese word; those of sections may be one word of code or a name.

    Code in them is one word, too: beside the page, where the titles stand again, it stands apart.
    """
    cjk, one_word = re.compile(f"[{typography.CJK}]"), re.compile(r"[%\w.]+(\(\))?")
    titles = [
        (where, mark, title)
        for where, text in typography.chinese_texts(ROOT)
        for mark, title in re.findall(r"^(#+) (.+)", without_code(text), re.MULTILINE)
    ]
    assert len(titles) > 500
    left = [title for title in titles if not cjk.search(title[2])]
    assert not [title for title in left if title[1] == "#" or not one_word.fullmatch(title[2])]
    code = [(where, word) for where, _, title in titles for word in re.findall("`(.+?)`", title)]
    assert not [(where, word) for where, word in code if not one_word.fullmatch(word)]


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("每个进程,都在跑。", "half-width punctuation"),
        ("卡住(死锁)。", "half-width punctuation"),
        ("都在跑.", "half-width punctuation"),
        ('所谓"死锁"。', "half-width punctuation"),
        ("每个rank 都在跑。", "no space"),
        ("启动 4个进程。", "no space"),
        ("名字`rank` 是编号。", "no space"),
        ("大小为$n$ 时。", "no space"),
        ("进程 组。", "a space inside"),
        ("先启动， rank 再通信。", "a space beside"),
        ("**卡住** 。", "a space beside"),
        ("第一行，\n第二行。", "a line break"),
        ("共 ４ 个。", "full-width letters"),
        ("编号称为秩。", "say 'rank'"),
        ("**卡住。**再看下一个。", "bold that is shown"),
        ("从**“卡住”**开始。", "bold that is shown"),
    ],
)
def test_a_mistake_is_found(text, what):
    found = [rule for rule, _ in typography.marks(text, {"秩": "rank"})]
    assert any(rule.startswith(what) for rule in found)


@pytest.mark.parametrize(
    "text",
    [
        "每个 rank 都在跑：第 4 个也一样（见下文）。",
        "运行 `dist.all_reduce(x)`，然后 `print(x)`。",
        "耗时 $t(n) = \\alpha + \\beta n$，见“测量”一节。",
        "```python\nprint('你好,world')  # 注释,可以\n```",
        "| 选项 | 含义 |\n|---|---|\n| `-n` | 数量 |",
        "见[术语表](glossary.md)。\n\n下一段。",
        "- 第一项；\n- 第二项。",
        "**卡住**。再看**下一个**，它 **`x`** 不同。",
        "<!-- alt: 一条直线 -->",
    ],
)
def test_good_text_passes(text):
    assert list(typography.marks(text, {"秩": "rank"})) == []
