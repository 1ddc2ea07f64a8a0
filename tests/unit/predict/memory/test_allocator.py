"""A history of the allocator, played through: phases by snapshots, parts by addresses and times."""

from rankbook.predict.memory.allocator import live_blocks, replay
from rankbook.predict.memory.ledger import REST


def event(action: str, addr: int = 0, size: int = 0) -> dict:
    return {"action": action, "addr": addr, "size": size}


def test_a_history_is_played_through():
    live = {1: (100, "parameters"), 2: (200, "optimizer")}
    trace = [
        event("snapshot"),  # forward
        event("alloc", 10, 40),
        event("snapshot"),  # the loss
        event("alloc", 20, 7),
        event("snapshot"),  # it is made
        event("snapshot"),  # backward
        event("segment_alloc", 99, 4096),
        event("alloc", 30, 100),
        event("free_requested", 10, 40),
        event("free_completed", 10, 40),
        event("free_requested", 20, 7),
        event("snapshot"),  # update
        event("alloc", 10, 5),  # an address again
        event("free_requested", 10, 5),
        event("snapshot"),
    ]
    labels = ["forward", "loss", "loss made", "backward", "update"]
    found = replay(live, trace, labels, {30})
    assert found.begins == {"forward": 0, "backward": 2, "update": 5}
    totals = [sum(moment.values()) for moment in found.moments]
    assert totals == [300, 340, 347, 447, 407, 400, 405, 400]
    fullest = found.moments[3]
    assert fullest["gradients"] == 100 and fullest["logits"] == 7 and fullest[REST] == 40
    assert (1, 4, 40, REST) in found.entries and (3, 8, 100, "gradients") in found.entries


def test_what_the_allocator_has_given_out():
    block = {"address": 5, "size": 512, "state": "active_allocated"}
    free = {"address": 6, "size": 1024, "state": "inactive"}
    waiting = {"address": 7, "size": 2048, "state": "active_awaiting_free"}
    segments = [
        {"device": 0, "blocks": [block, free, waiting]},
        {"device": 1, "blocks": [dict(block, address=9)]},
    ]
    assert live_blocks(segments, 0) == {5: 512, 7: 2048}
