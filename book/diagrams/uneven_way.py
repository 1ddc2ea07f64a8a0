"""Which way suits uneven data: the page 18_uneven_inputs."""

from diagrams.kit import say

SIZE = (42, 57.5)
QUESTIONS = (  # what is asked, the answers that end the search, the one that leads on
    (
        say("Can you deal out equally many batches?", "能给各 rank 分一样多的 batch 吗？"),
        [(say("yes", "能"), say("do that", "就这样分"))],
        say("no", "不能"),
    ),
    (
        say("Is the tail small, and shuffled?", "尾部很小，而且打乱过？"),
        [(say("yes, and it may go", "是，可以不要"), "`drop`")],
        say("every batch matters", "每个 batch 都要"),
    ),
    (
        say(
            "Are there collectives in the forward pass?\nSyncBatchNorm is one",
            "前向里有集合通信吗？\nSyncBatchNorm 就是",
        ),
        [
            (
                say("yes", "有"),
                say(
                    "exact: `drop`, or `Join` stops all\nlockstep runs, but repeats mix in",
                    "要精确：`drop`，或让 `Join` 停下所有 rank\n"
                    "lockstep 能运行，但会混入重复的 batch",
                ),
            )
        ],
        say("no", "没有"),
    ),
    (
        say(
            "FSDP, ZeRO, a pipeline, accumulation,\nmomentum, or Adam?",
            "用了 FSDP、ZeRO、流水线、梯度累积、\n动量或 Adam？",
        ),
        [(say("any of them", "有其一"), say("lockstep: `has-data`", "lockstep：`has-data`"))],
        say("none: DDP and SGD", "都没有：DDP 加 SGD"),
    ),
    (
        say("What should a lone batch count?", "落单的 batch 应当算多少？"),
        [
            (say("like any other", "与别的一样"), "`join`"),
            (say("a whole step", "算完整的一步"), "`join-remaining`"),
        ],
        None,
    ),
)


def draw(p):
    """From the cheapest way to the dearest: the first answer that fits decides."""
    y = 1
    for asked, answers, onward in QUESTIONS:
        y = p.question(y, asked, *answers, onward=onward)
