"""Where Python stands in a step, and the switch for each place: the page 34_compile."""

from diagrams.kit import say

SIZE = (41, 19.5)
PLACES = (  # where it begins, what is done there, the switch
    (
        6.4,
        say("a batch\nis made", "准备\nbatch"),
        say("loader workers,\npinned memory", "worker 进程、\n锁页内存"),
    ),
    (
        18,
        say("forward,\nbackward", "前向、\n反向"),
        say("`torch.compile`,\nCUDA graphs", "`torch.compile`、\nCUDA graph"),
    ),
    (29.6, say("Adam's\nupdate", "Adam\n更新"), say("fused\noptimizer", "融合\n优化器")),
)


def draw(p):
    """Python prepares and launches, the device has short work in between, and waits."""
    p.words(0.5, 7.3, "Python", align="start")
    p.words(0.5, 10.8, say("device", "设备"), align="start")
    for number, (x, done, switch) in enumerate(PLACES):
        p.words(x + 5.5, 2.4, done, bold=True)
        p.brace(x, 13.2, 11, switch)
        if number == 0:
            p.block(None, x, 6, 11, 2.6)
            p.words(x + 5.5, 10.8, say("waits", "等待"), tone="quiet")
            continue
        for launch in range(5):
            at = x + 2.3 * launch
            p.block(None, at, 6, 1.5, 2.6)
            p.block(0, at + 1.1, 9.5, 0.8, 2.6)
