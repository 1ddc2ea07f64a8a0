"""The vocabulary of the diagrams: one shape a kind of thing, one size of words, one palette.

A description is a module of `book/diagrams` with ``SIZE = (width, height)`` and
``draw(picture)``. Lengths are in units of 10 CSS pixels, fractions are fine, 46 is the widest. It
places things (`shapes`), marks (`marks`) and words, and connects the `Box` of one with another's:

    # rank, x, y, width, height, words
    one = p.process(0, 1, 6, 16, 5, "rank 0", say("the whole model", "完整的模型"))
    p.message(one, two, say("gradient", "梯度"), rank=0, side="left")

Words of a thing: one argument a line, the first one bold where there are several. ``say(en, zh)``
has both languages, a plain string is the same in both; `` `code` `` and ``**bold**`` as in
Markdown, line breaks where you want them. A thing may stand within another one. Whatever does not
fit, leaves the picture, or covers something raises `Misdrawn`.
"""

from diagrams.kit.geometry import Box, Misdrawn, Port
from diagrams.kit.picture import Picture
from diagrams.kit.words import say

__all__ = ["Box", "Misdrawn", "Picture", "Port", "say"]
