"""What rank 0 of four keeps for each parameter, a square a byte: the page 38_memory_of_a_rank."""

from diagrams.kit import say

SIZE = (39, 30.4)
PARTS = ((1, 4), (10.8, 4), (20.6, 8))  # where the parameters, gradients and state begin; bytes
STAGES = (  # name, which parts are sharded, bytes of a rank
    ("DDP", (), 16),
    ("ZeRO 1", (2,), 10),
    ("ZeRO 2", (1, 2), 7),
    (say("ZeRO 3, FSDP", "ZeRO 3、FSDP"), (0, 1, 2), 4),
)


def draw(p):
    """Stage by stage one more part is cut; what is outlined is on the other three ranks."""
    names = (
        say("parameters", "参数"),
        say("gradients", "梯度"),
        say("Adam's state", "Adam 的状态"),
    )
    for (x, _), name in zip(PARTS, names, strict=True):
        p.words(x, 1.3, name, align="start", tone="quiet")
    for number, (name, sharded, kept) in enumerate(STAGES):
        y = 3.4 + 6 * number
        p.words(1, y + 1, name, align="start", bold=True)
        bytes_kept = say(f"{kept} bytes a parameter", f"每个参数 {kept} 字节")
        p.words(37.9, y + 1, bytes_kept, align="end", tone="quiet")
        for part, (x, count) in enumerate(PARTS):
            for cell in range(count):
                owner = 4 * cell // count if part in sharded else 0
                p.block(owner, x + 2.2 * cell, y + 2.4, 2, 2, faint=owner > 0)
    p.words(
        1,
        28.9,
        say(
            "filled: on rank 0; outlined: on ranks 1, 2, 3",
            "实心：在 rank 0 上；空心：在 rank 1、2、3 上",
        ),
        align="start",
        tone="quiet",
    )
