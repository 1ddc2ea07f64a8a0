"""What this book adds to Sphinx: one small module a topic."""


def setup(app):
    """Register every part of the book's extension."""
    from bookext import (
        addresses,
        anchors,
        cards,
        drawings,
        excerpts,
        figures,
        formulas,
        generated,
        lexers,
        moving,
        plots,
        redirects,
        scripts,
        search,
        symptoms,
        weight,
        words,
    )

    parts = (
        addresses,
        anchors,
        cards,
        drawings,
        excerpts,
        figures,
        formulas,
        generated,
        lexers,
        moving,
        plots,
        redirects,
        scripts,
        search,
        symptoms,
        weight,
        words,
    )
    for part in parts:
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
