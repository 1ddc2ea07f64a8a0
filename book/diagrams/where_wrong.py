"""Where in a training step each bug of the gallery lives: the page 63_silent_wrongs."""

from diagrams.kit import say

SIZE = (44, 46)
STEPS = (  # a part of a step, and the bugs that live there, by their numbers on the page
    (
        say("build", "构建"),
        say(
            "**11** optimizer first, **12** tied too early,\n**13** compiled or wrapped first",
            "**11** 先建 optimizer，**12** 绑定过早，\n**13** 先编译或先包装",
        ),
    ),
    (say("batch", "batch"), say("**6** rows by rank", "**6** 按 rank 取行")),
    (
        say("forward", "前向"),
        say(
            "**5** bias in a sum, **9** fused qkv,\n**14** the same dropout",
            "**5** 求和里的偏置，**9** 合并的 qkv，\n**14** 相同的 dropout",
        ),
    ),
    (
        say("loss", "损失"),
        say(
            "**1** mean of means,\n**2** scale of a pipeline, **3** accumulated scale",
            "**1** 平均的平均，\n**2** 流水线的缩放，**3** 累积的缩放",
        ),
    ),
    (
        say("backward", "反向"),
        say(
            "**4** a sum summed again,\n**7** tied stages, **8** norms never summed",
            "**4** 又求了一次和，\n**7** 绑定的 stage，**8** 从未求和的归一化",
        ),
    ),
    (say("clip", "裁剪"), say("**10** counted twice", "**10** 算了两遍")),
    (say("update", "更新"), say("**16** a stale shard", "**16** 过期的分片")),
    (
        say("evaluate, save", "评估、保存"),
        say(
            "**15** gathered out of turn,\n**17** running statistics",
            "**15** 乱序聚合，\n**17** 滑动统计量",
        ),
    ),
)


def draw(p):
    """The step goes down; the bugs stand beside the part that they spoil."""
    before = None
    for row, (done, bugs) in enumerate(STEPS):
        y = 0.6 + 5.8 * row
        step = p.step(0.6, y, 12, 4.2, done)
        p.words(14.2, y + 2.1, bugs, align="start")
        if before:
            p.message(before, step)
        before = step
