"""Which way suits uneven data: the page 18_uneven_inputs."""

from diagrams.kit import say

SIZE = (37, 62)
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
            "SyncBatchNorm, or other\ncollectives in the forward pass?",
            "前向里有 SyncBatchNorm\n或其他集合通信吗？",
        ),
        [
            (
                say("yes, stay exact", "有，要精确"),
                say(
                    "`drop`, or `Join`\nthat stops all ranks", "`drop`，或让 `Join`\n停下所有 rank"
                ),
            ),
            (
                say("yes, use every batch", "有，都要用上"),
                say("lockstep, though\nrepeats mix in", "lockstep，但会\n混入重复的 batch"),
            ),
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
