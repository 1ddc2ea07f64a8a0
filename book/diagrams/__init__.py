"""The book's diagrams: one short description a picture; `python book/draw.py` draws them all."""
