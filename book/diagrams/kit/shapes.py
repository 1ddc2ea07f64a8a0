"""Things: one shape a kind of thing. Lengths in units; each returns the `Box` it covers."""

import drawsvg

from diagrams.kit.geometry import UNIT, Box
from diagrams.kit.words import LEADING, lines
from plots.theme import GROUND, INK, LINE, PAPER, QUIET, ink_on

ROUND = 6
BORDER = 1.5


class Shapes:
    """The things of a `Picture`. ``words``: one argument a line, the first bold if several."""

    def process(self, rank, x, y, w, h, *words, top=False, failed=False) -> Box:
        """What runs: a rank, stage, agent, worker, pod, in its rank's colour (None: no rank).

        top: the words stand at the top, to leave room for what it holds. failed: it is gone.
        """
        box = self._place(x, y, w, h, words)
        tone = self.tone("bad" if failed else rank)
        dashes = {"stroke_dasharray": "5 4"} if failed else {}
        self._area(box, PAPER, "none")
        self._area(box, tone, tone, fill_opacity=0.05 if failed else 0.15, **dashes)
        self._fill(box, words, top)
        return box

    def step(self, x, y, w, h, *words, tone=None) -> Box:
        """Something that is done, in a chain; ``tone`` is good or bad where that is the point."""
        box = self._place(x, y, w, h, words)
        self._area(box, PAPER, "none")
        if tone:
            self._area(box, self.tone(tone), self.tone(tone), fill_opacity=0.1)
        else:
            self._area(box, GROUND, LINE)
        self._fill(box, words)
        return box

    def node(self, x, y, w, h, *words, failed=False) -> Box:
        """A node, host or other place that holds things; its name stands at the top left."""
        box = self._place(x, y, w, h, words)
        dashes = {"stroke_dasharray": "5 4"} if failed else {}
        tone = self.tone("bad") if failed else LINE
        area = {"rx": 10, "fill": GROUND, "stroke": tone, "stroke_width": BORDER, **dashes}
        self.add("ground", drawsvg.Rectangle(box.x, box.y, box.w, box.h, **area))
        for number, line in enumerate(words):
            middle = box.y + 18 + number * LEADING
            tone = INK if number == 0 else QUIET
            said = lines(line, self.language)
            self.write(said, (box.x + 12, middle), "start", tone, number == 0, box)
        return box

    def store(self, x, y, w, h, *words) -> Box:
        """A store of keys and values: a table under its name (the first words)."""
        box = self._place(x, y, w, h, words)
        head = box.y + 26
        self._area(box, PAPER, INK)
        line = {"stroke": INK, "stroke_width": BORDER}
        self.add("things", drawsvg.Line(box.x, head, box.right, head, **line))
        named = Box(box.x, box.y, box.w, 26, box.name)
        self._fill(named, words[:1], bold=True)
        if words[1:]:
            self._fill(Box(box.x, head, box.w, box.bottom - head, box.name), words[1:], bold=False)
        return box

    def disk(self, x, y, w, h, *words) -> Box:
        """What outlives processes: a checkpoint, a volume, a data set; a cylinder."""
        box, lid = self._place(x, y, w, h, words), 6
        path = drawsvg.Path(fill=PAPER, stroke=INK, stroke_width=BORDER)
        path.M(box.x, box.y + lid).V(box.bottom - lid)
        path.A(box.w / 2, lid, 0, 0, 0, box.right, box.bottom - lid).V(box.y + lid)
        path.A(box.w / 2, lid, 0, 0, 0, box.x, box.y + lid)
        path.A(box.w / 2, lid, 0, 0, 0, box.right, box.y + lid)
        self.add("things", path)
        self._fill(Box(box.x, box.y + lid, box.w, box.h - lid, box.name), words)
        return box

    def file(self, x, y, w, h, *words, hidden=False) -> Box:
        """A file: a sheet with a folded corner; hidden: dashed, while it is being written."""
        box, fold = self._place(x, y, w, h, words), 11
        dashes = {"stroke_dasharray": "4 3"} if hidden else {}
        look = {"fill": PAPER, "stroke": QUIET, "stroke_width": BORDER, **dashes}
        path = drawsvg.Path(stroke_linejoin="round", **look)
        path.M(box.x, box.y).H(box.right - fold).L(box.right, box.y + fold)
        path.V(box.bottom).H(box.x).Z()
        path.M(box.right - fold, box.y).V(box.y + fold).H(box.right)
        self.add("things", path)
        self._fill(box, words)
        return box

    def block(self, rank, x, y, w, h, *words, faint=False) -> Box:
        """What a rank made or holds (None: nobody's): rows, a gradient, time; in full colour.

        ``rank`` may also be a tone: "bad". faint: its outline, for what is empty or not yet there.
        """
        box = self._place(x, y, w, h, words)
        tone = LINE if rank is None else self.tone(rank)
        look = {"rx": 3, "fill": GROUND if rank is None else tone}
        if faint or rank is None:
            look |= {"stroke": tone, "stroke_width": BORDER}
        if faint:
            look["fill_opacity"] = 0 if rank is None else 0.15
        self.add("things", drawsvg.Rectangle(box.x, box.y, box.w, box.h, **look))
        pale = faint or rank is None
        self._fill(box, words, ink=INK if pale else ink_on(tone), padding=1)
        return box

    def tensor(self, x, y, owners, texts=(), *, size=2, gap=0.2, down=False, faint=()) -> Box:
        """A row (or column) of square cells, each in the colour of the rank who made it.

        faint: the owners whose cells are outlines only.
        """
        pitch = size + gap
        cells = []
        for number, owner in enumerate(owners):
            dx, dy = (0, number * pitch) if down else (number * pitch, 0)
            said = texts[number : number + 1]
            cells.append(self.block(owner, x + dx, y + dy, size, size, *said, faint=owner in faint))
        last = cells[-1]
        return Box(cells[0].x, cells[0].y, last.right - cells[0].x, last.bottom - cells[0].y)

    def _place(self, x, y, w, h, words) -> Box:
        name = " / ".join(line for said in words for line in lines(said, self.language))
        box = Box(x * UNIT, y * UNIT, w * UNIT, h * UNIT, name)
        self.things.append(box)
        return box

    def _area(self, box, fill, stroke, **more) -> None:
        look = {"rx": ROUND, "fill": fill, "stroke": stroke, "stroke_width": BORDER, **more}
        self.add("things", drawsvg.Rectangle(box.x, box.y, box.w, box.h, **look))

    def _fill(self, box, words, top=False, bold=None, ink=INK, padding=5) -> None:
        """Write ``words`` in the middle of ``box``, or at its top."""
        said = [lines(line, self.language) for line in words]
        count = sum(map(len, said))
        middle = box.y + box.h / 2 - LEADING * (count - 1) / 2
        middle = box.y + 16 if top else middle
        inside = Box(box.x + padding, box.y, box.w - 2 * padding, box.h, box.name)
        for number, texts in enumerate(said):
            heavy = ((top or len(said) > 1) and number == 0) if bold is None else bold
            centre = middle + LEADING * (len(texts) - 1) / 2
            self.write(texts, (box.x + box.w / 2, centre), "middle", ink, heavy, inside)
            middle += LEADING * len(texts)
