"""Marks: what fails, what is asked, what belongs together."""

import drawsvg

from diagrams.kit.geometry import UNIT, Box
from diagrams.kit.words import LEADING, lines, runs, width
from plots.theme import BAD, GOOD, GROUND, INK, LINE, PAPER, QUIET

DOT = 5.5


class Marks:
    """The marks of a `Picture`."""

    def fault(self, x, y) -> Box:
        """The mark of what fails, its centre at (x, y): a cross in a disc."""
        return self._disc(x, y, BAD, ((-3.5, -3.5, 3.5, 3.5), (-3.5, 3.5, 3.5, -3.5)))

    def held(self, x, y) -> Box:
        """The mark of what holds: a tick in a disc."""
        return self._disc(x, y, GOOD, ((-4, 0.5, -1, 3.5), (-1, 3.5, 4, -3)))

    def _disc(self, x, y, tone, strokes) -> Box:
        cx, cy = x * UNIT, y * UNIT
        self.add("things", drawsvg.Circle(cx, cy, 9, fill=tone, stroke=PAPER, stroke_width=1.5))
        look = {"stroke": PAPER, "stroke_width": 1.75, "stroke_linecap": "round"}
        for x0, y0, x1, y1 in strokes:
            self.add("things", drawsvg.Line(cx + x0, cy + y0, cx + x1, cy + y1, **look))
        mark = Box(cx - 9, cy - 9, 18, 18, "a mark")
        self.marks.append(mark)
        return mark

    def brace(self, x, y, w, *words, below=True) -> None:
        """A bracket along a span, its words at the open end's other side."""
        px, py, length = x * UNIT, y * UNIT, w * UNIT
        foot = py - 5 if below else py + 5
        path = drawsvg.Path(fill="none", stroke=QUIET, stroke_width=1.25)
        self.add("lines", path.M(px, foot).V(py).H(px + length).V(foot))
        texts = [line for said in words for line in lines(said, self.language)]
        away = 13 + LEADING * (len(texts) - 1) / 2
        at = (px + length / 2, py + away if below else py - away)
        self.write(texts, at, "middle", QUIET)

    def question(self, y, said, *answers, onward=None) -> float:
        """A question of a decision list, and its answers below it; returns the y of the next one.

        answers: (answer, what to do then), or with a tone as the third: "good", "bad". onward:
        the answer that leads to the next question, beside the line that goes there.
        """
        texts = lines(said, self.language)
        cx, cy, left = 14, y * UNIT + 10, 34
        rows = cy + LEADING * (len(texts) - 1)
        self.write(texts, (left, (cy + rows) / 2), "start", INK, True)
        said_of = [lines(answer[0], self.language)[0] for answer in answers]
        column = left + max([32, *(width(runs(word), self.language) for word in said_of)]) + 8
        for answer in answers:
            rows = self._answer(rows, left, column, *answer)
        last = rows + 38
        if onward:
            last = rows + 40
            self.write(lines(onward, self.language), (left, rows + 34), "start", QUIET)
            line = {"stroke": QUIET, "stroke_width": 1.5}
            end = rows + 64
            self.add("lines", drawsvg.Line(cx, cy + DOT + 3, cx, end - 13, **line))
            head = drawsvg.Path(fill=QUIET).M(cx, end - 7).L(cx - 4, end - 15).L(cx + 4, end - 15)
            self.add("lines", head.Z())
            self.ways.append([(cx, cy + DOT), (cx, end - 7)])
            last = end - 4
        self.add("things", drawsvg.Circle(cx, cy, DOT, fill=PAPER, stroke=INK, stroke_width=1.5))
        return (last - 6) / UNIT

    def _answer(self, above, left, column, answer, outcome, tone=None) -> float:
        """One answer: its word, an arrow, and what to do; returns the middle of its last line."""
        middle = above + 34
        self.write(lines(answer, self.language), (left, middle), "start", QUIET)
        texts = lines(outcome, self.language)
        wide = max(width(runs(text), self.language) for text in texts)
        foot = middle + LEADING * (len(texts) - 1)
        start = round(column, 1)
        box = Box(start + 26, middle - 14, wide + 20, foot - middle + 28, texts[0])
        self.things.append(box)
        look = {"rx": 6, "fill": GROUND, "stroke": LINE, "stroke_width": 1.5}
        if tone:
            look |= {"fill": self.tone(tone), "stroke": self.tone(tone), "fill_opacity": 0.1}
        self.add("ground", drawsvg.Rectangle(box.x, box.y, round(box.w, 1), box.h, **look))
        line = {"stroke": QUIET, "stroke_width": 1.5}
        self.add("lines", drawsvg.Line(start, middle, box.x - 10, middle, **line))
        tip = drawsvg.Path(fill=QUIET).M(box.x - 3, middle)
        self.add("lines", tip.L(box.x - 11, middle - 4).L(box.x - 11, middle + 4).Z())
        self.write(texts, (box.x + 10, (middle + foot) / 2), "start", INK, False, box)
        return foot
