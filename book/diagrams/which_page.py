"""Which page of Part I helps: the page 19_scaling."""

from diagrams.kit import say

SIZE = (38, 60)
QUESTIONS = (
    (
        say("Does it hang, or fail?", "卡住，或者报错？"),
        (
            say("anywhere", "随时"),
            say("Ranks, live:\nread the report", "运行中的 rank：\n看故障报告"),
        ),
        (
            say("epoch's end", "epoch 末尾"),
            say(
                "Join: the tool\nUneven data: which one",
                "Join：这个工具\n不均匀的数据：选哪种",
            ),
        ),
    ),
    (
        say("Does it differ from one process?", "结果与单个进程不同？"),
        (
            say("same samples", "样本相同"),
            say("Data parallel", "数据并行"),
        ),
        (
            say("not counted", "还没数过"),
            say(
                "Every sample once;\nTrainer, where that reads",
                "每个样本恰好一次；\n由 Trainer 读取：Trainer",
            ),
        ),
    ),
    (
        say("Is it right, but slow?", "正确，但是慢？"),
        (
            say("for messages", "等消息"),
            say(
                "all_reduce: size, ring\nData parallel: overlap\nthis page: more rows a rank",
                "all_reduce：大小、环\n数据并行：梯度桶、重叠\n本页：每个 rank 多放几行",
            ),
        ),
        (
            say("for data", "等数据"),
            say(
                "this page: each rank reads\nTrainer: how",
                "本页：每个 rank 读自己的\nTrainer：怎样做",
            ),
        ),
    ),
    (
        say("Does it not fit?", "放不下？"),
        (
            say("the model", "模型"),
            say(
                "more ranks won't help:\nPipelines;\nWhat a rank keeps",
                "加 rank 没有用：\n流水线；一个 rank 要放下多少",
            ),
        ),
        (say("one machine", "一台机器"), say("Several nodes", "多个节点")),
    ),
)


def draw(p):
    """What one sees, what decides between two pages, and the pages."""
    y = 1
    for asked, *answers in QUESTIONS:
        y = p.question(y, asked, *answers)
