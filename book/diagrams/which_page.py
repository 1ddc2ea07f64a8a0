"""Which page of Part I helps: the page 19_scaling."""

from diagrams.kit import say

SIZE = (38, 58)
QUESTIONS = (
    (
        say("Does it hang, or fail?", "卡住，或者报错？"),
        (
            say("anywhere", "随时"),
            say("11 Ranks, live:\nread the report", "11 运行中的 rank：\n看故障报告"),
        ),
        (
            say("epoch's end", "epoch 末尾"),
            say(
                "17 Join: the tool\n18 which tool, which weight",
                "17 Join：这个工具\n18 选哪种工具、怎样加权",
            ),
        ),
    ),
    (
        say("Does it differ from one process?", "结果与单个进程不同？"),
        (
            say("same samples", "样本相同"),
            say("13 Data parallel", "13 数据并行"),
        ),
        (
            say("not counted", "还没数过"),
            say(
                "14 Every sample once\n15 where Trainer reads",
                "14 每个样本恰好一次\n15 由 Trainer 读取时",
            ),
        ),
    ),
    (
        say("Is it right, but slow?", "正确，但是慢？"),
        (
            say("for messages", "等消息"),
            say(
                "12 all_reduce: size, ring\n13 buckets, overlap\n19 more rows a rank",
                "12 all_reduce：大小、环\n13 梯度桶、重叠\n19 每个 rank 多放几行",
            ),
        ),
        (
            say("for data", "等数据"),
            say(
                "19 each rank reads\n15 how, with Trainer",
                "19 每个 rank 读自己的\n15 用 Trainer 怎样做",
            ),
        ),
    ),
    (
        say("Does it not fit?", "放不下？"),
        (
            say("the model", "模型"),
            say(
                "more ranks won't help:\n21 pipelines, 38 FSDP",
                "加 rank 没有用：\n21 流水线，38 FSDP",
            ),
        ),
        (say("one machine", "一台机器"), say("16 Several nodes", "16 多个节点")),
    ),
)


def draw(p):
    """What one sees, what decides between two pages, and the pages."""
    y = 1
    for asked, *answers in QUESTIONS:
        y = p.question(y, asked, *answers)
