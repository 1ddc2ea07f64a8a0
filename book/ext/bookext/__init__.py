"""What this book adds to Sphinx: one small module a topic."""


def setup(app):
    """Register every part of the book's extension."""
    from bookext import (
        anchors,
        cards,
        drawings,
        excerpts,
        figures,
        generated,
        lexers,
        moving,
        plots,
        redirects,
        search,
        symptoms,
        words,
    )

    parts = (
        anchors,
        cards,
        drawings,
        excerpts,
        figures,
        generated,
        lexers,
        moving,
        plots,
        redirects,
        search,
        symptoms,
        words,
    )
    for part in parts:
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
