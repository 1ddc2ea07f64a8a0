"""What this book adds to Sphinx: one small module a topic."""

from importlib import import_module

PARTS = (
    "addresses", "anchors", "cards", "contents", "drawings", "excerpts", "figures", "formulas",
    "generated", "lexers", "minutes", "moving", "plots", "redirects", "scripts", "search",
    "sources", "stopped", "symptoms", "weight", "words",
)  # fmt: skip


def setup(app):
    """Register every part of the book's extension."""
    for part in PARTS:
        import_module(f"bookext.{part}").setup(app)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
