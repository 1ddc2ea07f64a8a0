"""What a notebook shows of its ranks: text, figures, progress bars."""
