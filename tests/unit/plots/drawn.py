"""What a drawn figure shows, measured on the figure itself."""

from matplotlib.figure import Figure
from matplotlib.text import Text


def texts_outside(figure: Figure) -> list[str]:
    """Draw `figure`; return the words that do not lie on it whole, to a pixel.

    Not those of ticks: matplotlib keeps some that lie outside of their axis, and leaves them out.
    """
    figure.canvas.draw()
    paper = figure.bbox.padded(1)
    ticks = {
        label
        for axes in figure.axes
        for axis in (axes.xaxis, axes.yaxis)
        for label in axis.get_ticklabels(which="both")
    }
    shown = [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text() and text not in ticks
    ]
    assert shown, "a figure without a word"
    boxes = [(text.get_text(), text.get_window_extent()) for text in shown]
    return [
        words
        for words, box in boxes
        if box.x0 < paper.x0 or box.y0 < paper.y0 or box.x1 > paper.x1 or box.y1 > paper.y1
    ]
