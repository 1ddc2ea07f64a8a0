"""What this book adds to Sphinx: one small module a topic."""


def setup(app):
    """Register every part of the book's extension."""
    from bookext import anchors, cards, figures, generated, lexers, search, words

    for part in (anchors, cards, figures, generated, lexers, search, words):
        part.setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
