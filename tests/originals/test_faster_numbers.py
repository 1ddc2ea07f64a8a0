"""Every number of the text on training faster: the book's table of them, beside the text itself."""

import re

import pytest

from originals import faster_numbers as numbers
from tests.originals.listing import ORIGINALS

TEXT = "3-train-faster-distilbert-imdb.md"
# where each number stands, without whitespace: the words around it
STANDS = {
    "plain loop, opening": ("从22.53分钟缩短到2.75分钟",),
    "plain loop": ("Timeelapsed21.33min", "Testaccuracy89.92%", "21.33分钟的微调"),
    "Trainer": ("该模型在21.79分钟内达到了92.6%的测试准确率",),
    "16 bits": ("从21.79分钟缩短至8.25分钟", "准确率为93.2%——与之前的92.6%相比"),
    "compile": ("训练时间为8.44分钟,而之前为8.25分钟",),
    "compile, early": ("运行时间缩短至5.6分钟",),
    "DDP": ("运行时间为3.07分钟,测试准确率达到93.1%",),
    "ddp_sharded": ('"ddp_sharded"运行需要2.58分钟',),
    "DeepSpeed": ("花了2.75分钟,并实现了92.6%的测试准确率",),
    "Fabric": ("Fabric仅用1.8分钟",),
}


def dense() -> str:
    """The text without whitespace: its line breaks are lost in places anyway."""
    path = ORIGINALS / TEXT
    if not path.exists():
        pytest.skip(f"the original's text {TEXT} is not beside this checkout")
    return "".join(path.read_text("utf-8").split())


@pytest.mark.parametrize("row", numbers.ROWS, ids=lambda row: row.name)
def test_each_number_stands_in_the_text(row):
    text, places = dense(), STANDS[row.name]
    assert all(place in text for place in places)
    found = re.findall(r"\d+\.\d+", " ".join(places))
    assert f"{row.minutes:g}" in found
    assert row.accuracy is None or f"{row.accuracy:g}" in found


def test_no_duration_of_the_text_is_left_out():
    said = set(re.findall(r"(\d+\.\d+)分钟", dense())) | {"21.33"}  # of its log
    assert {float(minutes) for minutes in said} == {row.minutes for row in numbers.ROWS}


def test_no_test_accuracy_of_the_text_is_left_out():
    after_epochs = {f"{x:.2f}" for x in numbers.TRAINING + numbers.VALIDATION}
    said = set(re.findall(r"(\d+\.\d+)%", dense())) - after_epochs
    assert {float(x) for x in said} == {r.accuracy for r in numbers.ROWS if r.accuracy}


def test_accuracies_after_each_epoch_are_those_of_its_log():
    found = re.findall(r"Trainacc\.:(\d+\.\d+)%\|Valacc\.:(\d+\.\d+)%", dense())
    training, validation = zip(*found, strict=True)
    assert tuple(map(float, training)) == numbers.TRAINING
    assert tuple(map(float, validation)) == numbers.VALIDATION


def test_its_log_has_as_many_steps_as_the_table_says():
    (steps,) = set(re.findall(r"Batch\d{4}/(\d{4})\|", dense()))
    assert numbers.EPOCHS * int(steps) == numbers.text_row("plain loop").steps


def test_its_sizes():
    assert "35,000个训练示例、5,000个验证集记录和10,000个测试记录" in dense()
    assert numbers.SAMPLES == 35_000 and numbers.TEST == 10_000


def test_what_the_book_says_the_text_mentions_stands_in_the_text():
    """Changes besides the one that a section names, told by the text: words, or a marked line."""
    text = dense()
    places = {
        "Trainer": ("ModelCheckpoint来加载最佳模型", "记录到CSV文件中", "设置为确定性",
                    "如果我们禁用检查点并允许PyTorch以非确定性模式运行"),
        "DDP": ('strategy="ddp",#<--NEW',),
        "Fabric": ("能够使用回调和日志记录,但我们没有在这里启用",),
    }  # fmt: skip
    assert places.keys() == numbers.MENTIONED.keys()
    assert all(place in text for found in places.values() for place in found)
