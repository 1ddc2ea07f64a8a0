"""Where a stream of samples is shared out, twice: the page 15_trainer."""

from diagrams.kit import say

SIZE = (39, 47)


def draw(p):
    """Sixteen samples, batches of four, two ranks: the defaults, and what is left of the text."""
    numbers = [str(number) for number in range(16)]
    left = 2
    p.words(19.5, 1.4, say("a stream of 16 samples", "16 个样本的数据流"), tone="quiet")
    stream = p.tensor(left, 2.8, [None] * 16, numbers)
    own = say("the data set keeps its rank's share", "数据集只留本 rank 的一份")
    data = p.step(left, 8.2, 35, 5.5, "`IterableDataset`", own)
    p.message(stream, data)
    read = p.tensor(left, 17.8, [0, "bad"] * 8, numbers, faint=("bad",))
    p.message(data, read)
    p.words(
        19.5,
        21.6,
        say(
            "rank 0 reads, for all; nobody reads rank 1's share",
            "只有 rank 0 替大家读；rank 1 的那份没有人读",
        ),
        tone="bad",
    )
    again = say("rank 0's batches go to all ranks in turn", "rank 0 的 batch 轮流发给各 rank")
    trainer = p.step(
        left, 23.8, 35, 5.5, say("`Trainer` shares out again", "`Trainer` 再划分一次"), again
    )
    for rank, x in enumerate((3, 21)):
        one = p.process(rank, x, 34.5, 15, 8.2, f"rank {rank}", top=True)
        p.message(trainer, one, rank=0)
        p.tensor(x + 3.2, 38.4, [0] * 4, numbers[8 * rank : 8 * rank + 8 : 2])
    p.words(19.5, 45.2, say("8 of 16 samples arrive", "16 个样本只到了 8 个"), tone="quiet")
