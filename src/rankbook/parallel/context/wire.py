"""How many bytes a rank sends for the attention of one layer, from sizes alone."""

METHODS = ("ring", "heads")
PARTS = ("both", "forward", "backward")


def attention_bytes(
    method: str,
    ranks: int,
    length: int,
    d_model: int,
    batch: int = 1,
    itemsize: int = 4,
    part: str = "both",
) -> int:
    """Bytes that each rank sends to others in one layer's attention.

    method: "ring" or "heads". length: of the whole sequences, in tokens. d_model: heads x d_head.
    itemsize: bytes of a number in q, k and v. part: of the work, "forward", "backward" or "both".

    ring: of k and v, n - 1 blocks forward, as many backward, and n times a block's gradients, which
    go all the way home, in float32 at least. heads: q, k, v and y, but for the share that stays
    here; as much backward. With more ranks a rank sends as much in a ring, and less with heads.
    Raises ValueError for another method or part, and where lengths are not cut into equal parts.
    """
    for name, value, known in (("method", method, METHODS), ("part", part, PARTS)):
        if value not in known:
            raise ValueError(f"{name} {value!r} is unknown; use {', '.join(known)}")
    if ranks < 1 or length % ranks:
        raise ValueError(f"{length} tokens are not cut into {ranks} equal parts")
    block = batch * (length // ranks) * d_model  # numbers of one of q, k, v, y here
    if method == "ring":
        forward = (ranks - 1) * 2 * block * itemsize
        home = ranks * 2 * block * max(4, itemsize) if ranks > 1 else 0
        backward = forward + home
    else:
        forward = backward = 4 * (block - block // ranks) * itemsize
    return {"forward": forward, "backward": backward, "both": forward + backward}[part]
