"""A card that nobody knows, as one writes it: name=x,memory=48e9,flops=360e12,..."""

from rankbook.predict.plan.machines import Card, find_card, make_card
from rankbook.predict.plan.quantities import amount, count

NUMBERS = {
    "memory": "its bytes",
    "flops": "FLOP/s of bf16 products",
    "bandwidth": "B/s of its memory",
    "inside": "B/s, one way, to a card of its node",
    "between": "B/s, one way, to another node, for each card",
}


def read_card(text: str) -> Card:
    """A known card by its name, or one that is described. Raises ValueError, in one sentence."""
    if "=" not in text:
        return find_card(text)
    said: dict[str, str] = {}
    for word in text.split(","):
        name, equals, value = (part.strip() for part in word.partition("="))
        if name not in (*NUMBERS, "name", "per_node", "source") or not equals:
            raise ValueError(
                f"--gpu: {word.strip()!r} describes nothing of a card; there are name, per_node, "
                + ", ".join(f"{n} ({about})" for n, about in NUMBERS.items())
            )
        if name in said:
            raise ValueError(f"--gpu: {name} is given twice; give it once")
        if not value:
            raise ValueError(f"--gpu: {name} has no value; write {name}=..., or leave it out")
        said[name] = value
    missing = [f"{name} ({about})" for name, about in NUMBERS.items() if name not in said]
    if missing:
        raise ValueError(f"--gpu: the card lacks {', '.join(missing)}; add it as name=number")
    numbers = [amount(said[name], f"--gpu: {name}") for name in NUMBERS]  # in make_card's order
    per_node = count(said.get("per_node", "8"), "GPUs of a node (--gpu: per_node)")
    source = said.get("source", "given by you")
    return make_card(said.get("name", "own card"), *numbers, per_node=per_node, source=source)
